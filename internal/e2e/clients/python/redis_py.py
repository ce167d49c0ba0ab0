"""What applications do with redis-py. Arguments: host port protocol prefix."""

import sys
import threading

import redis

host, port, protocol, prefix = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
tag = "{" + prefix + "}:"  # all keys of one transaction are in one slot, as on a Redis Cluster


def connect(**options):
    return redis.Redis(
        host=host, port=port, protocol=protocol, username="ann", password="pw", client_name="driver",
        decode_responses=True, socket_timeout=20, **options)


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def raises(error, text, call, *args):
    try:
        call(*args)
    except error as problem:
        if text not in str(problem):
            raise AssertionError(f"{problem!r} does not say {text!r}") from problem
        return
    raise AssertionError(f"{call} raises no {error}")


def wrong_password():
    client = redis.Redis(host=host, port=port, protocol=protocol, username="ann", password="wrong")
    raises(redis.AuthenticationError, "", client.ping)
    client.close()


def values(r):
    check(r.ping(), True)
    check(r.client_getname(), "driver")
    check(r.set(tag + "s", "v", ex=100), True)
    check(r.get(tag + "s"), "v")
    check(r.get(tag + "nosuch"), None)
    check(r.mset({prefix + "a": 1, prefix + "b": 2, prefix + "c": 3}), True)
    check(r.mget(prefix + "a", prefix + "nosuch", prefix + "c"), ["1", None, "3"])
    check(r.delete(prefix + "a", prefix + "b", prefix + "c"), 3)
    check(r.hset(tag + "h", mapping={"f": 1, "g": 2}), 2)
    check(r.hgetall(tag + "h"), {"f": "1", "g": "2"})
    check(r.sadd(tag + "set", "x", "y"), 2)
    check(r.smembers(tag + "set"), {"x", "y"})
    check(r.zadd(tag + "z", {"m": 1.5, "n": 2}), 2)
    check(r.zscore(tag + "z", "m"), 1.5)
    check([tuple(pair) for pair in r.zrange(tag + "z", 0, -1, withscores=True)], [("m", 1.5), ("n", 2.0)])
    check(r.geoadd(tag + "geo", (13.361389, 38.115556, "Palermo")), 1)
    check(round(r.geopos(tag + "geo", "Palermo")[0][0], 3), 13.361)
    raises(redis.ResponseError, "WRONGTYPE", r.incr, tag + "h")
    check(r.info("server")["redis_mode"], "standalone")


def pipelines(r):
    pipe = r.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"{prefix}p{i}", i).incr(f"{prefix}p{i}")
    results = pipe.execute()
    check(results[1::2], list(range(1, 1001)))
    pipe = r.pipeline(transaction=False)
    pipe.set(tag + "text", "x").incr(tag + "text").get(tag + "text")
    results = pipe.execute(raise_on_error=False)
    check((results[0], results[2]), (True, "x"))
    check(isinstance(results[1], redis.ResponseError), True)


def transactions(r):
    with r.pipeline() as pipe:
        check(pipe.set(tag + "n", 1).incr(tag + "n").get(tag + "n").execute(), [True, 2, "2"])
    with r.pipeline() as pipe:
        pipe.watch(tag + "n")
        before = int(pipe.get(tag + "n"))
        pipe.multi()
        pipe.set(tag + "n", before + 1)
        check(pipe.execute(), [True])
    with r.pipeline() as pipe:
        pipe.watch(tag + "n")
        r.set(tag + "n", 100)
        pipe.multi()
        pipe.incr(tag + "n")
        raises(redis.WatchError, "", pipe.execute)
    check(r.transaction(lambda p: (p.multi(), p.incr(tag + "n")), tag + "n"), [101])
    with r.pipeline() as pipe:
        pipe.lpush(tag + "n", 1)
        pipe.incr(tag + "n")
        raises(redis.ResponseError, "WRONGTYPE", pipe.execute)
    check(r.get(tag + "n"), "102")
    with r.pipeline() as pipe:
        pipe.execute_command("NOSUCH")
        raises(redis.ResponseError, "unknown command", pipe.execute)


def next_message(sub):
    while True:
        message = sub.get_message(timeout=20)
        if message is None:
            raise AssertionError("no message")
        return message["type"], message["channel"], message["data"]


def publish_subscribe(r):
    channel, pattern = prefix + "news", prefix + "n*"
    sub = r.pubsub()
    sub.subscribe(channel)
    check(next_message(sub), ("subscribe", channel, 1))
    sub.psubscribe(pattern)
    check(next_message(sub), ("psubscribe", pattern, 2))
    r.publish(channel, "hello")
    check(sorted([next_message(sub), next_message(sub)]), [("message", channel, "hello"), ("pmessage", channel, "hello")])
    sub.unsubscribe(channel)
    check(next_message(sub), ("unsubscribe", channel, 1))
    sub.close()

    got, arrived = [], threading.Event()

    def handler(message):
        got.append(message["data"])
        if len(got) == 100:
            arrived.set()

    sub = r.pubsub(ignore_subscribe_messages=False)
    sub.subscribe(**{channel: handler})
    check(next_message(sub)[0], "subscribe")
    thread = sub.run_in_thread(sleep_time=0.01)
    for i in range(100):
        r.publish(channel, i)
    check(arrived.wait(20), True)
    check(got, [str(i) for i in range(100)])
    thread.stop()
    thread.join()

    sub = r.pubsub()
    sub.ssubscribe(channel)
    check(next_message(sub)[0], "ssubscribe")
    r.spublish(channel, "to the shard")
    check(next_message(sub), ("smessage", channel, "to the shard"))
    sub.close()


def blocking(r):
    other = connect()
    got = []
    thread = threading.Thread(target=lambda: got.append(other.blpop([tag + "queue", tag + "other"], timeout=0)))
    thread.start()
    r.rpush(tag + "queue", "job")
    thread.join(20)
    check([tuple(pair) for pair in got], [(tag + "queue", "job")])
    check(r.blpop(tag + "queue", timeout=0.05), None)
    r.rpush(tag + "queue", "a", "b")
    check(r.blmove(tag + "queue", tag + "done", 1), "a")
    check(r.brpoplpush(tag + "queue", tag + "done", 1), "b")
    r.zadd(tag + "delayed", {"x": 1.5})
    check(tuple(r.bzpopmin(tag + "delayed", 1)), (tag + "delayed", "x", 1.5))
    other.close()


def scripts(r):
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    check(add(keys=[tag + "script"], args=[5]), 5)
    check(add(keys=[tag + "script"], args=[5]), 10)
    pipe = r.pipeline()
    add(keys=[tag + "script"], args=[1], client=pipe)
    check(pipe.execute(), [11])
    check(r.eval("return {KEYS[1], ARGV[1], 7}", 1, tag + "k", "a"), [tag + "k", "a", 7])
    raises(redis.exceptions.NoScriptError, "", r.evalsha, "0" * 40, 1, tag + "k")


def locks(r):
    lock = r.lock(tag + "lock", timeout=20)
    check(lock.acquire(blocking=False), True)
    check(connect().lock(tag + "lock", timeout=20).acquire(blocking=False), False)
    check(lock.extend(10), True)
    lock.release()
    with r.lock(tag + "lock", timeout=20, blocking_timeout=20):
        pass


def streams(r):
    stream = tag + "stream"
    check(r.xgroup_create(stream, "group", mkstream=True), True)
    ids = [r.xadd(stream, {"n": i}) for i in range(3)]
    reply = r.xreadgroup("group", "worker", {stream: ">"}, count=2, block=1000)
    check("n" in str(reply), True)
    check(r.xpending(stream, "group")["pending"], 2)
    check(r.xack(stream, "group", *ids[:2]), 2)
    check(r.xlen(stream), 3)
    check(r.xrange(stream)[0][0], ids[0])
    check(r.xinfo_groups(stream)[0]["entries-read"], 2)
    claimed = r.xautoclaim(stream, "group", "worker2", 0)
    check(claimed[1], [])


def scans(r):
    check(sorted(r.scan_iter(match=prefix + "p*", count=100)), sorted(f"{prefix}p{i}" for i in range(1000)))
    check(sorted(r.hscan_iter(tag + "h")), [("f", "1"), ("g", "2")])
    check(sorted(r.sscan_iter(tag + "set")), ["x", "y"])


def threads(r):
    problems = []

    def count(i):
        try:
            for n in range(100):
                check(r.incr(f"{prefix}thread{i}"), n + 1)
        except Exception as problem:  # the thread has nobody else to tell
            problems.append(problem)

    workers = [threading.Thread(target=count, args=(i,)) for i in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(problems, [])


client = connect()
for step in wrong_password, values, pipelines, transactions, publish_subscribe, blocking, scripts, locks, streams, scans, threads:
    print(step.__name__, flush=True)
    step(*([] if step is wrong_password else [client]))
print("done")
