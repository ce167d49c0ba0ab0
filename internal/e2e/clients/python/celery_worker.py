"""A Celery application with its worker. Arguments: host port prefix."""

import sys

import redis
from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker

host, port, prefix = sys.argv[1], sys.argv[2], sys.argv[3]
url = f"redis://ann:pw@{host}:{port}/0"
app = Celery("driver", broker=url, backend=url)
# One slot for all keys: Celery's transactions go over several of them, as on a Redis Cluster.
options = {"global_keyprefix": "{" + prefix + "}", "visibility_timeout": 60}
app.conf.update(
    broker_transport_options=options, result_backend_transport_options=options, broker_connection_retry_on_startup=True,
    task_default_queue="jobs", worker_hijack_root_logger=False)
attempts = []


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def flaky(self):
    attempts.append(1)
    if len(attempts) < 3:
        raise self.retry(countdown=0)
    return len(attempts)


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


# Celery does not wait until its subscription for a result is confirmed. The first of a proxy takes the time of a new
# connection, in which the result may come and go; with this one there, the next go out at once.
held = redis.Redis(host=host, port=port, username="ann", password="pw").pubsub()
held.subscribe("{" + prefix + "}held")
check(held.get_message(timeout=20)["type"], "subscribe")

with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
    check(add.delay(2, 3).get(timeout=30), 5)
    check(group(add.s(i, i) for i in range(10))().get(timeout=30), [2 * i for i in range(10)])
    check(chord((add.s(i, 1) for i in range(5)), total.s())().get(timeout=30), 15)
    check(flaky.delay().get(timeout=30), 3)
    check(add.apply_async((1, 1), countdown=1).get(timeout=30), 2)
print("done")
