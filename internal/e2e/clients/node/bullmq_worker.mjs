// A BullMQ queue with its worker, over ioredis. Arguments: host port prefix.
import assert from 'node:assert/strict'
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq'

const [host, port, name] = process.argv.slice(2)
const connection = { host, port: Number(port), username: 'ann', password: 'pw', maxRetriesPerRequest: null }
const prefix = `{${name}}` // one slot for all keys, as on a Redis Cluster

const attempts = {}
async function work(job) {
  attempts[job.name] = (attempts[job.name] ?? 0) + 1
  if (job.name === 'flaky' && attempts.flaky < 3) throw new Error('not yet')
  if (job.name === 'broken') throw new Error('never')
  await job.updateProgress(50)
  return job.data.n * 2
}

const queue = new Queue('jobs', { connection, prefix })
const events = new QueueEvents('jobs', { connection, prefix })
const worker = new Worker('jobs', work, { connection, prefix, concurrency: 5 })
await events.waitUntilReady()

const jobs = await queue.addBulk(Array.from({ length: 50 }, (_, n) => ({ name: 'plain', data: { n } })))
const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 30000)))
assert.deepEqual(results, Array.from({ length: 50 }, (_, n) => n * 2))

const flaky = await queue.add('flaky', { n: 1 }, { attempts: 5, backoff: 10 })
assert.equal(await flaky.waitUntilFinished(events, 30000), 2)
assert.equal(attempts.flaky, 3)
await assert.rejects((await queue.add('broken', { n: 1 })).waitUntilFinished(events, 30000), /never/)
const delayed = await queue.add('delayed', { n: 4 }, { delay: 200 })
assert.equal(await delayed.waitUntilFinished(events, 30000), 8)
const urgent = await queue.add('urgent', { n: 5 }, { priority: 1, jobId: 'once' })
assert.equal((await queue.add('urgent', { n: 5 }, { priority: 1, jobId: 'once' })).id, urgent.id)
assert.equal(await urgent.waitUntilFinished(events, 30000), 10)

const flow = new FlowProducer({ connection, prefix })
const tree = await flow.add({ name: 'parent', queueName: 'jobs', data: { n: 7 }, children: [{ name: 'child', queueName: 'jobs', data: { n: 8 } }] })
assert.equal(await tree.job.waitUntilFinished(events, 30000), 14)

const counts = await queue.getJobCounts('completed', 'failed', 'wait', 'active', 'delayed')
assert.deepEqual(counts, { completed: 55, failed: 1, wait: 0, active: 0, delayed: 0 })
for (const part of [flow, worker, events, queue]) await part.close()
console.log('done')
