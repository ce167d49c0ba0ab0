"""RQ: enqueue, work, fail. Arguments: host port prefix."""

import logging
import sys

import redis
from rq import Queue, Retry, SimpleWorker

host, port, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
connection = redis.Redis(host=host, port=port, username="ann", password="pw", socket_timeout=20)


logging.disable(logging.CRITICAL)  # one job fails on purpose


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


queue = Queue(prefix, connection=connection)
jobs = [queue.enqueue("operator.add", i, 1) for i in range(10)]
failing = queue.enqueue("operator.truediv", 1, 0, retry=Retry(max=1))
dependent = queue.enqueue("operator.mul", 6, 7, depends_on=jobs[-1])
SimpleWorker([queue], connection=connection).work(burst=True)
check([job.return_value() for job in jobs], list(range(1, 11)))
check(dependent.return_value(), 42)
check(failing.get_status(refresh=True).value, "failed")
check(len(queue.failed_job_registry), 1)
check(queue.count, 0)
print("done")
