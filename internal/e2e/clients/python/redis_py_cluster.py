"""What applications do with redis-py in cluster mode. Arguments: host port protocol prefix."""

import sys
import threading

import redis
from redis.cluster import RedisCluster

host, port, protocol, prefix = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
tag = "{" + prefix + "}:"


def connect():
    return RedisCluster(
        host=host, port=port, protocol=protocol, username="ann", password="pw", decode_responses=True, socket_timeout=20)


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


def values(r):
    check(r.ping(target_nodes=RedisCluster.PRIMARIES), True)
    check(len(r.get_primaries()) > 1, True)
    check(r.set(tag + "s", "v", ex=100), True)
    check(r.get(tag + "s"), "v")
    check(r.get(tag + "nosuch"), None)
    check(r.hset(tag + "h", mapping={"f": 1, "g": 2}), 2)
    check(r.hgetall(tag + "h"), {"f": "1", "g": "2"})
    check(r.mset_nonatomic({prefix + "a": 1, prefix + "b": 2}), [True, True])
    check(r.mget_nonatomic(prefix + "a", prefix + "nosuch", prefix + "b"), ["1", None, "2"])
    check(r.delete(prefix + "a", prefix + "b"), 2)
    check(r.cluster_keyslot("foo"), 12182)
    raises(redis.exceptions.RedisClusterException, "slot", r.rename, prefix + "a", prefix + "b")


def pipelines(r):
    pipe = r.pipeline(transaction=False)
    for i in range(500):
        pipe.set(f"{prefix}p{i}", i).incr(f"{prefix}p{i}")
    check(pipe.execute()[1::2], list(range(1, 501)))


def transactions(r):
    with r.pipeline(transaction=True) as pipe:
        check(pipe.set(tag + "n", 1).incr(tag + "n").get(tag + "n").execute()[1:], [2, "2"])
    with r.pipeline(transaction=True) as pipe:
        pipe.watch(tag + "n")
        r.set(tag + "n", 100)
        pipe.multi()
        pipe.incr(tag + "n")
        raises(redis.WatchError, "", pipe.execute)
    check(r.get(tag + "n"), "100")


def next_message(read):
    for _ in range(100):
        message = read()
        if message:
            return message["type"], message["channel"], message["data"]
    raise AssertionError("no message")


def publish_subscribe(r):
    channel = prefix + "news"
    sub = r.pubsub()
    sub.subscribe(channel)
    check(next_message(lambda: sub.get_message(timeout=0.2))[:2], ("subscribe", channel))
    r.publish(channel, "hello")
    check(next_message(lambda: sub.get_message(timeout=0.2)), ("message", channel, "hello"))
    sub.ssubscribe(channel)
    check(next_message(lambda: sub.get_sharded_message(timeout=0.2))[:2], ("ssubscribe", channel))
    r.spublish(channel, "to the shard")
    check(next_message(lambda: sub.get_sharded_message(timeout=0.2)), ("smessage", channel, "to the shard"))
    sub.close()


def blocking(r):
    for i in range(4):
        other, got = connect(), []
        thread = threading.Thread(target=lambda: got.append(other.blpop([f"{prefix}queue{i}"], timeout=0)))
        thread.start()
        r.rpush(f"{prefix}queue{i}", "job")
        thread.join(20)
        check([tuple(pair) for pair in got], [(f"{prefix}queue{i}", "job")])
        other.close()


def scripts(r):
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    for i in range(10):
        check(add(keys=[f"{prefix}script{i}"], args=[5]), 5)
    check(r.eval("return {KEYS[1], ARGV[1], 7}", 1, tag + "k", "a"), [tag + "k", "a", 7])
    raises(redis.exceptions.NoScriptError, "", r.evalsha, "0" * 40, 1, tag + "k")


def scans(r):
    check(sorted(set(r.scan_iter(match=prefix + "p*", count=100))), sorted(f"{prefix}p{i}" for i in range(500)))


client = connect()
for step in values, pipelines, transactions, publish_subscribe, blocking, scripts, scans:
    print(step.__name__, flush=True)
    step(client)
print("done")
