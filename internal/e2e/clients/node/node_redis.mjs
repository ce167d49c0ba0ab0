// What applications do with node-redis. Arguments: host port protocol prefix.
import assert from 'node:assert/strict'
import { createClient, defineScript, WatchError } from 'redis'

const [host, port, protocol, prefix] = process.argv.slice(2)
const tag = `{${prefix}}:` // all keys of one transaction are in one slot, as on a Redis Cluster

const client = createClient({
  username: 'ann',
  password: 'pw',
  name: 'driver',
  RESP: Number(protocol),
  socket: { host, port: Number(port), reconnectStrategy: false },
  scripts: {
    add: defineScript({
      SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
      NUMBER_OF_KEYS: 1,
      parseCommand: (parser, key, by) => { parser.pushKey(key); parser.push(String(by)) },
      transformReply: (reply) => reply,
    }),
  },
})

async function values() {
  assert.equal(await client.ping(), 'PONG')
  assert.equal(await client.clientGetName(), 'driver')
  assert.equal(await client.set(tag + 's', 'v', { EX: 100 }), 'OK')
  assert.equal(await client.get(tag + 's'), 'v')
  assert.equal(await client.get(tag + 'nosuch'), null)
  assert.equal(await client.hSet(tag + 'h', { f: '1', g: '2' }), 2)
  assert.deepEqual({ ...await client.hGetAll(tag + 'h') }, { f: '1', g: '2' })
  await client.mSet({ [prefix + 'a']: '1', [prefix + 'b']: '2' })
  assert.deepEqual(await client.mGet([prefix + 'a', prefix + 'nosuch', prefix + 'b']), ['1', null, '2'])
  assert.equal(await client.del([prefix + 'a', prefix + 'b']), 2)
  await client.zAdd(tag + 'z', [{ score: 1.5, value: 'm' }])
  assert.equal(await client.zScore(tag + 'z', 'm'), 1.5)
  assert.deepEqual(await client.zRangeWithScores(tag + 'z', 0, -1), [{ score: 1.5, value: 'm' }])
  await client.sAdd(tag + 'set', ['x', 'y'])
  assert.deepEqual([...await client.sMembers(tag + 'set')].sort(), ['x', 'y'])
  await assert.rejects(client.incr(tag + 'h'), /WRONGTYPE/)
}

async function pipelines() {
  const replies = []
  for (let i = 0; i < 1000; i++) { // commands of one tick are one pipeline
    client.set(`${prefix}p${i}`, String(i))
    replies.push(client.incr(`${prefix}p${i}`))
  }
  assert.deepEqual(await Promise.all(replies), Array.from({ length: 1000 }, (_, i) => i + 1))
}

async function transactions() {
  assert.deepEqual(await client.multi().set(tag + 'n', '1').incr(tag + 'n').get(tag + 'n').exec(), ['OK', 2, '2'])
  const other = await client.duplicate().connect()
  await other.watch(tag + 'n')
  await client.set(tag + 'n', '100')
  await assert.rejects(other.multi().incr(tag + 'n').exec(), WatchError)
  await other.watch(tag + 'n')
  assert.deepEqual(await other.multi().incr(tag + 'n').exec(), [101])
  await other.close()
}

async function publishSubscribe() {
  const subscriber = await client.duplicate().connect()
  const messages = []
  let arrived
  const all = new Promise((resolve) => { arrived = resolve })
  await subscriber.subscribe(prefix + 'news', (message) => { if (messages.push(message) === 100) arrived() })
  const matched = new Promise((resolve) => { subscriber.pSubscribe(prefix + 'o*', (message) => resolve(message)).then(() => client.publish(prefix + 'other', 'matched')) })
  assert.equal(await matched, 'matched')
  for (let i = 0; i < 100; i++) await client.publish(prefix + 'news', String(i))
  await all
  assert.deepEqual(messages, Array.from({ length: 100 }, (_, i) => String(i)))
  await subscriber.unsubscribe(prefix + 'news')
  await subscriber.pUnsubscribe()
  assert.equal(String(await subscriber.get(tag + 's')), 'v', 'an ordinary connection again')
  const shard = new Promise((resolve) => { subscriber.sSubscribe(prefix + 'shard', (message) => resolve(message)).then(() => client.sPublish(prefix + 'shard', 'to the shard')) })
  assert.equal(await shard, 'to the shard')
  await subscriber.close()
}

async function blocking() {
  const worker = await client.duplicate().connect()
  const popped = worker.blPop([tag + 'queue', tag + 'other'], 0)
  await client.rPush(tag + 'queue', 'job')
  assert.deepEqual({ ...await popped }, { key: tag + 'queue', element: 'job' })
  assert.equal(await worker.blPop(tag + 'queue', 0.05), null)
  await worker.close()
}

async function scripts() {
  assert.equal(await client.add(tag + 'script', 5), 5)
  assert.equal(await client.add(tag + 'script', 5), 10)
  assert.deepEqual(await client.eval('return {KEYS[1], ARGV[1], 7}', { keys: [tag + 'k'], arguments: ['a'] }), [tag + 'k', 'a', 7])
  await assert.rejects(client.evalSha('0'.repeat(40), { keys: [tag + 'k'] }), /NOSCRIPT/)
}

async function streams() {
  const stream = tag + 'stream'
  await client.xGroupCreate(stream, 'group', '$', { MKSTREAM: true })
  const id = await client.xAdd(stream, '*', { n: '1' })
  const read = await client.xReadGroup('group', 'worker', { key: stream, id: '>' }, { COUNT: 10, BLOCK: 1000 })
  assert.ok(JSON.stringify(read).includes(id))
  assert.equal(await client.xAck(stream, 'group', id), 1)
}

async function scans() {
  const keys = []
  for await (const found of client.scanIterator({ MATCH: prefix + 'p*', COUNT: 100 })) keys.push(...found)
  assert.equal(new Set(keys).size, 1000)
}

client.on('error', (problem) => { throw problem })
await client.connect()
for (const step of [values, pipelines, transactions, publishSubscribe, blocking, scripts, streams, scans]) {
  console.log(step.name)
  await step()
}
await client.close()
console.log('done')
