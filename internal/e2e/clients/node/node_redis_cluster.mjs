// What applications do with node-redis in cluster mode. Arguments: host port protocol prefix.
import assert from 'node:assert/strict'
import { createCluster, defineScript } from 'redis'

const [host, port, protocol, prefix] = process.argv.slice(2)
const tag = `{${prefix}}:`

const add = defineScript({
  SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
  NUMBER_OF_KEYS: 1,
  parseCommand: (parser, key, by) => { parser.pushKey(key); parser.push(String(by)) },
  transformReply: (reply) => reply,
})
async function connect() {
  const cluster = createCluster({
    rootNodes: [{ url: `redis://${host}:${port}` }],
    defaults: { username: 'ann', password: 'pw', name: 'driver', socket: { reconnectStrategy: false } },
    RESP: Number(protocol),
    scripts: { add },
  })
  cluster.on('error', (problem) => { throw problem })
  await cluster.connect()
  return cluster
}

const cluster = await connect()
assert.ok(cluster.masters.length > 1, 'it has found the other nodes')
assert.equal(await cluster.set(tag + 's', 'v', { EX: 100 }), 'OK')
assert.equal(await cluster.get(tag + 's'), 'v')
await cluster.hSet(tag + 'h', { f: '1', g: '2' })
assert.deepEqual({ ...await cluster.hGetAll(tag + 'h') }, { f: '1', g: '2' })
await assert.rejects(cluster.mGet([prefix + 'a', prefix + 'b']), /CROSSSLOT/)

const replies = []
for (let i = 0; i < 500; i++) { // commands of one tick are one pipeline for each node
  cluster.set(`${prefix}p${i}`, String(i))
  replies.push(cluster.incr(`${prefix}p${i}`))
}
assert.deepEqual(await Promise.all(replies), Array.from({ length: 500 }, (_, i) => i + 1))

assert.deepEqual(await cluster.multi().set(tag + 'n', '1').incr(tag + 'n').get(tag + 'n').exec(), ['OK', 2, '2'])
for (let i = 0; i < 10; i++) assert.equal(await cluster.add(`${prefix}script${i}`, 5), 5)

const message = new Promise((resolve) => {
  cluster.subscribe(prefix + 'news', resolve).then(() => cluster.publish(prefix + 'news', 'hello'))
})
assert.equal(await message, 'hello')
const shard = new Promise((resolve) => {
  cluster.sSubscribe(prefix + 'shard', resolve).then(() => cluster.sPublish(prefix + 'shard', 'to the shard'))
})
assert.equal(await shard, 'to the shard')

const worker = await connect()
for (let i = 0; i < 4; i++) {
  const popped = worker.blPop(`${prefix}queue${i}`, 0)
  await cluster.rPush(`${prefix}queue${i}`, 'job')
  assert.deepEqual({ ...await popped }, { key: `${prefix}queue${i}`, element: 'job' })
}
console.log('done')
process.exit(0)
