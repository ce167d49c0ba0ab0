// What applications do with ioredis in cluster mode. Arguments: host port prefix.
import assert from 'node:assert/strict'
import Redis from 'ioredis'

const [host, port, prefix] = process.argv.slice(2)
const tag = `{${prefix}}:` // all keys of one pipeline are on one node, and of one transaction in one slot
const options = { redisOptions: { username: 'ann', password: 'pw', connectionName: 'driver' }, clusterRetryStrategy: null, slotsRefreshTimeout: 20000 }
const connect = (more) => new Redis.Cluster([{ host, port: Number(port) }], { ...options, ...more })
const cluster = connect()

assert.equal(await cluster.set(tag + 's', 'v'), 'OK')
assert.equal(await cluster.get(tag + 's'), 'v')
await cluster.hset(tag + 'h', { f: 1, g: 2 })
assert.deepEqual(await cluster.hgetall(tag + 'h'), { f: '1', g: '2' })
await assert.rejects(cluster.mset(prefix + 'a', 1, prefix + 'b', 2), /CROSSSLOT/)
assert.ok(cluster.nodes('master').length > 1, 'it has found the other nodes')
for (const node of cluster.nodes('master')) assert.equal(await node.client('GETNAME'), 'driver')

const pipelined = connect({ enableAutoPipelining: true }) // of all keys of one node that are asked for in one tick
const replies = []
for (let i = 0; i < 500; i++) replies.push(pipelined.set(`${prefix}p${i}`, i), pipelined.incr(`${prefix}p${i}`))
const results = await Promise.all(replies)
assert.deepEqual(results.filter((_, i) => i % 2), Array.from({ length: 500 }, (_, i) => i + 1))
assert.deepEqual(await cluster.pipeline().set(tag + 'n', 1).incr(tag + 'n').exec(), [[null, 'OK'], [null, 2]])

assert.deepEqual(await cluster.multi().set(tag + 'n', 1).incr(tag + 'n').exec(), [[null, 'OK'], [null, 2]])
await cluster.watch(tag + 'n')
await pipelined.set(tag + 'n', 5)
assert.equal(await cluster.multi().incr(tag + 'n').exec(), null)

cluster.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" })
for (let i = 0; i < 10; i++) assert.equal(await cluster.add(`${prefix}script${i}`, 5), 5)
assert.equal(await cluster.add(`${prefix}script0`, 5), 10)

const subscriber = connect()
assert.equal(await subscriber.subscribe(prefix + 'news'), 1)
const message = new Promise((resolve) => subscriber.on('message', (channel, text) => resolve([channel, text])))
await cluster.publish(prefix + 'news', 'hello')
assert.deepEqual(await message, [prefix + 'news', 'hello'])

for (let i = 0; i < 4; i++) {
  const popped = pipelined.blpop(`${prefix}queue${i}`, 0)
  await cluster.rpush(`${prefix}queue${i}`, 'job')
  assert.deepEqual(await popped, [`${prefix}queue${i}`, 'job'])
}

const keys = new Set()
for (const node of cluster.nodes('master')) {
  for await (const found of node.scanStream({ match: prefix + 'p*', count: 100 })) found.forEach((key) => keys.add(key))
}
assert.equal(keys.size, 500)
console.log('done')
process.exit(0)
