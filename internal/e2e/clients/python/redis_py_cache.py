"""redis-py's client-side cache, which CLIENT TRACKING keeps right. Arguments: host port prefix."""

import sys
import time

import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

host, port, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]

CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"  # Redis 7.0 has all that it uses; redis-py asks for 7.4


def connect(**options):
    return redis.Redis(
        host=host, port=port, protocol=3, username="ann", password="pw", decode_responses=True, socket_timeout=20, **options)


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def soon(read, want):
    limit = time.monotonic() + 20
    while read() != want:
        if time.monotonic() > limit:
            check(read(), want)
        time.sleep(0.005)


cached, other = connect(cache_config=CacheConfig(max_size=1000)), connect()
cache = cached.get_cache()
names = [f"{prefix}{i}" for i in range(20)]  # on all nodes of a cluster
for i, name in enumerate(names):
    other.set(name, i)
for _ in range(2):
    check([cached.get(name) for name in names], [str(i) for i in range(20)])
check(cache.size, 20)

for name in names:
    other.set(name, "changed")
for name in names:
    soon(lambda: cached.get(name), "changed")
other.delete(names[0])
soon(lambda: cached.get(names[0]), None)

cached.set(names[1], "by itself")
soon(lambda: cached.get(names[1]), "by itself")
check(other.hset(prefix + "hash", "f", "v"), 1)
check(cached.hgetall(prefix + "hash"), {"f": "v"})
check(cached.hgetall(prefix + "hash"), {"f": "v"})
other.hset(prefix + "hash", "f", "w")
soon(lambda: cached.hgetall(prefix + "hash"), {"f": "w"})
print("done")
