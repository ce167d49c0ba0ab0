// What applications do with ioredis. Arguments: host port prefix.
import assert from 'node:assert/strict'
import Redis from 'ioredis'

const [host, port, prefix] = process.argv.slice(2)
const tag = `{${prefix}}:`
const options = { host, port: Number(port), username: 'ann', password: 'pw', connectionName: 'driver', retryStrategy: null }
const client = new Redis(options)

assert.equal(await client.client('GETNAME'), 'driver')
assert.equal(await client.set(tag + 's', 'v'), 'OK')
assert.equal(await client.getBuffer(tag + 's').then(String), 'v')
await client.hset(tag + 'h', { f: 1, g: 2 })
assert.deepEqual(await client.hgetall(tag + 'h'), { f: '1', g: '2' })

const pipeline = client.pipeline()
for (let i = 0; i < 1000; i++) pipeline.set(`${prefix}p${i}`, i).incr(`${prefix}p${i}`)
const results = await pipeline.exec()
assert.deepEqual(results.filter((_, i) => i % 2).map(([, n]) => n), Array.from({ length: 1000 }, (_, i) => i + 1))

assert.deepEqual(await client.multi().set(tag + 'n', 1).incr(tag + 'n').exec(), [[null, 'OK'], [null, 2]])
await client.watch(tag + 'n')
await client.duplicate().set(tag + 'n', 5)
assert.equal(await client.multi().incr(tag + 'n').exec(), null)

client.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" })
assert.equal(await client.add(tag + 'script', 5), 5)
assert.equal(await client.add(tag + 'script', 5), 10)
assert.deepEqual(await client.pipeline().add(tag + 'script', 1).exec(), [[null, 11]])

const subscriber = new Redis(options)
assert.equal(await subscriber.subscribe(prefix + 'news'), 1)
const message = new Promise((resolve) => subscriber.on('message', (channel, text) => resolve([channel, text])))
await client.publish(prefix + 'news', 'hello')
assert.deepEqual(await message, [prefix + 'news', 'hello'])
await subscriber.unsubscribe()
assert.equal(await subscriber.get(tag + 's'), 'v')

const popped = subscriber.blpop(tag + 'queue', 0)
await client.rpush(tag + 'queue', 'job')
assert.deepEqual(await popped, [tag + 'queue', 'job'])

const keys = new Set()
for await (const found of client.scanStream({ match: prefix + 'p*', count: 100 })) found.forEach((key) => keys.add(key))
assert.equal(keys.size, 1000)
console.log('done')
process.exit(0)
