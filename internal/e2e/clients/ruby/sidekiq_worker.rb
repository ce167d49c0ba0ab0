# Sidekiq: enqueue, process, retry, schedule, inspect. Arguments: host port name, and "cluster" for a Redis Cluster: there
# its heartbeat fails, a transaction with keys in several slots, so it lists no processes and counts nothing.
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/launcher'
require 'sidekiq/scheduled'
require 'logger'

host, port, name, cluster = ARGV
PATIENCE = 30
connection = { url: "redis://ann:pw@#{host}:#{port}/0" }
Redis.silence_deprecations = true
Sidekiq.logger = Logger.new(File::NULL) # one job fails on purpose
Sidekiq.configure_client { |config| config.redis = connection.merge(size: 5) }
RESULTS = Queue.new
ATTEMPTS = Queue.new

class Add
  include Sidekiq::Worker

  def perform(a, b)
    RESULTS << a + b
  end
end

class Flaky
  include Sidekiq::Worker
  sidekiq_options retry: 5

  def perform
    ATTEMPTS << 1
    raise 'not yet' if ATTEMPTS.size < 2

    RESULTS << 'at last'
  end
end

def check(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

def results(count)
  Array.new(count) { Timeout.timeout(PATIENCE) { RESULTS.pop } }
end

def soon(want)
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
  sleep 0.02 until (got = yield) == want || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
  check(got, want)
end

Add.set(queue: name).perform_async(1, 2)
check(Sidekiq::Queue.new(name).size, 1)
check(Sidekiq::Queue.new(name).first.args, [1, 2])

Sidekiq.options.merge!(queues: [name], concurrency: 4, timeout: 5)
launcher = Sidekiq::Launcher.new(Sidekiq.options)
launcher.run
check(results(1), [3])

Sidekiq::Client.push_bulk('class' => Add, 'queue' => name, 'args' => Array.new(50) { |i| [i, i] })
check(results(50).sort, Array.new(50) { |i| 2 * i })
Flaky.set(queue: name).perform_async
soon(1) { Sidekiq::RetrySet.new.size }
Sidekiq::RetrySet.new.retry_all
check(results(1), ['at last'])
check(ATTEMPTS.size, 2)
Add.set(queue: name).perform_in(0.2, 20, 22)
soon(0) { Sidekiq::Scheduled::Enq.new.enqueue_jobs; Sidekiq::ScheduledSet.new.size } # as the poller does every few seconds
check(results(1), [42])
later = Add.set(queue: name).perform_in(3600, 1, 1)
check(Sidekiq::ScheduledSet.new.find_job(later).args, [1, 1])
check(Sidekiq::ScheduledSet.new.find_job(later).delete, true)
unless cluster
  soon(1) { Sidekiq::ProcessSet.new.size }
  launcher.send(:❤) # the heartbeat, which also writes the statistics
  soon([53, 1]) { [Sidekiq::Stats.new.processed - Sidekiq::Stats.new.failed, Sidekiq::Stats.new.failed] }
end
check(Sidekiq::Queue.new(name).size, 0)
launcher.quiet
launcher.stop
puts 'done'
