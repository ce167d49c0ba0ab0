import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What applications do with Lettuce. Arguments: host and port, host and port of a node for cluster mode, a prefix. */
public final class Lettuce {
  private static final String ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private Lettuce() {}

  public static void main(String[] args) throws Exception {
    ClientResources resources = DefaultClientResources.builder().ioThreadPoolSize(2).computationThreadPoolSize(2).build();
    for (ProtocolVersion version : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
      System.out.println(version);
      plain(resources, version, uri(args[0], args[1]), args[4] + version);
      clustered(resources, version, uri(args[2], args[3]), args[4] + "c" + version);
    }
    System.out.println("done");
    System.exit(0); // its threads would go on for seconds
  }

  private static RedisURI uri(String host, String port) {
    return RedisURI.builder().withHost(host).withPort(Integer.parseInt(port)).withAuthentication("ann", "pw".toCharArray())
        .withClientName("driver").withTimeout(PATIENCE).build();
  }

  private static void check(Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError("got " + got + ", want " + want);
    }
  }

  private static void fails(String text, Runnable call) {
    try {
      call.run();
    } catch (RedisCommandExecutionException problem) {
      check(problem.getMessage().contains(text), true);
      return;
    }
    throw new AssertionError("no error that says " + text);
  }

  private static void plain(ClientResources resources, ProtocolVersion version, RedisURI uri, String prefix) throws Exception {
    RedisClient client = RedisClient.create(resources, uri);
    client.setOptions(ClientOptions.builder().protocolVersion(version).autoReconnect(false).build());
    try (StatefulRedisConnection<String, String> connection = client.connect();
        StatefulRedisConnection<String, String> other = client.connect()) {
      RedisCommands<String, String> redis = connection.sync();
      String tag = "{" + prefix + "}:"; // all keys of one transaction are in one slot
      check(redis.clientGetname(), "driver");
      check(redis.set(tag + "s", "v", SetArgs.Builder.ex(100)), "OK");
      check(redis.get(tag + "s"), "v");
      check(redis.get(tag + "nosuch"), null);
      redis.hset(tag + "h", Map.of("f", "1", "g", "2"));
      check(redis.hgetall(tag + "h"), Map.of("f", "1", "g", "2"));
      redis.zadd(tag + "z", 1.5, "m");
      check(redis.zscore(tag + "z", "m"), 1.5);
      redis.mset(Map.of(prefix + "a", "1", prefix + "b", "2"));
      check(redis.mget(prefix + "a", prefix + "b"), List.of(KeyValue.just(prefix + "a", "1"), KeyValue.just(prefix + "b", "2")));
      fails("WRONGTYPE", () -> redis.incr(tag + "h"));
      check(redis.info("server").contains("redis_version:"), true);

      pipeline(connection, prefix);
      check(redis.multi(), "OK");
      redis.set(tag + "n", "1");
      redis.incr(tag + "n");
      TransactionResult result = redis.exec();
      check(List.of(result.get(0), result.get(1)), List.of("OK", 2L));
      redis.watch(tag + "n");
      other.sync().set(tag + "n", "100");
      redis.multi();
      redis.incr(tag + "n");
      check(redis.exec().wasDiscarded(), true);
      redis.multi();
      redis.incr(tag + "n");
      redis.discard();
      check(redis.get(tag + "n"), "100");

      String digest = redis.scriptLoad(ADD);
      check(redis.evalsha(digest, ScriptOutputType.INTEGER, new String[] {tag + "script"}, "5"), 5L);
      check(redis.eval(ADD, ScriptOutputType.INTEGER, new String[] {tag + "script"}, "5"), 10L);
      fails("NOSCRIPT", () -> redis.evalsha("0".repeat(40), ScriptOutputType.INTEGER, tag + "k"));

      RedisFuture<KeyValue<String, String>> popped = other.async().blpop(0, tag + "queue");
      redis.rpush(tag + "queue", "job");
      check(popped.get(20, TimeUnit.SECONDS), KeyValue.just(tag + "queue", "job"));
      check(redis.blpop(0.05, tag + "queue"), null);
      try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
        messages(subscriber, prefix, () -> redis.publish(prefix + "news", "hello"));
      }
    }
    client.shutdown(Duration.ZERO, PATIENCE);
  }

  private static void clustered(ClientResources resources, ProtocolVersion version, RedisURI uri, String prefix) throws Exception {
    RedisClusterClient client = RedisClusterClient.create(resources, uri);
    client.setOptions(ClusterClientOptions.builder().protocolVersion(version).build());
    try (StatefulRedisClusterConnection<String, String> connection = client.connect();
        StatefulRedisClusterConnection<String, String> other = client.connect()) {
      RedisAdvancedClusterCommands<String, String> redis = connection.sync();
      String tag = "{" + prefix + "}:";
      check(client.getPartitions().size() > 1, true);
      check(redis.set(tag + "s", "v"), "OK");
      check(redis.get(tag + "s"), "v");
      redis.mset(Map.of(prefix + "a", "1", prefix + "b", "2")); // which it divides
      check(redis.mget(prefix + "a", prefix + "b"), List.of(KeyValue.just(prefix + "a", "1"), KeyValue.just(prefix + "b", "2")));
      fails("CROSSSLOT", () -> redis.eval("return 1", ScriptOutputType.INTEGER, prefix + "a", prefix + "b"));

      List<RedisFuture<?>> all = new ArrayList<>();
      List<RedisFuture<Long>> counts = new ArrayList<>();
      for (int i = 0; i < 500; i++) {
        all.add(connection.async().set(prefix + "p" + i, "" + i));
        counts.add(connection.async().incr(prefix + "p" + i));
      }
      finished(all, counts);

      RedisCommands<String, String> node = transactions(client, connection, tag + "n");
      node.multi();
      node.set(tag + "n", "1");
      node.incr(tag + "n");
      check(node.exec().get(1), 2L);
      node.watch(tag + "n");
      redis.set(tag + "n", "100");
      node.multi();
      node.incr(tag + "n");
      check(node.exec().wasDiscarded(), true);

      for (int i = 0; i < 10; i++) {
        check(redis.eval(ADD, ScriptOutputType.INTEGER, new String[] {prefix + "script" + i}, "5"), 5L);
      }
      for (int i = 0; i < 4; i++) {
        RedisFuture<KeyValue<String, String>> popped = other.async().blpop(0, prefix + "queue" + i);
        redis.rpush(prefix + "queue" + i, "job");
        check(popped.get(20, TimeUnit.SECONDS), KeyValue.just(prefix + "queue" + i, "job"));
      }
      try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
        messages(subscriber, prefix, () -> redis.publish(prefix + "news", "hello"));
      }
    }
    client.shutdown(Duration.ZERO, PATIENCE);
  }

  /** Transactions are for the connection of the node that has the slot. */
  private static RedisCommands<String, String> transactions(
      RedisClusterClient client, StatefulRedisClusterConnection<String, String> connection, String key) {
    int slot = io.lettuce.core.cluster.SlotHash.getSlot(key);
    return connection.getConnection(client.getPartitions().getPartitionBySlot(slot).getNodeId()).sync();
  }

  private static void pipeline(StatefulRedisConnection<String, String> connection, String prefix) throws Exception {
    connection.setAutoFlushCommands(false);
    List<RedisFuture<?>> all = new ArrayList<>();
    List<RedisFuture<Long>> counts = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      all.add(connection.async().set(prefix + "p" + i, "" + i));
      counts.add(connection.async().incr(prefix + "p" + i));
    }
    connection.flushCommands();
    connection.setAutoFlushCommands(true);
    finished(all, counts);
  }

  private static void finished(List<RedisFuture<?>> all, List<RedisFuture<Long>> counts) throws Exception {
    all.addAll(counts);
    check(LettuceFutures.awaitAll(PATIENCE, all.toArray(new RedisFuture[0])), true);
    for (int i = 0; i < counts.size(); i++) {
      check(counts.get(i).get(), i + 1L);
    }
  }

  private static void messages(StatefulRedisPubSubConnection<String, String> subscriber, String prefix, Runnable publish) throws Exception {
    BlockingQueue<String> got = new LinkedBlockingQueue<>();
    subscriber.addListener(new RedisPubSubAdapter<>() {
      @Override
      public void message(String channel, String message) {
        got.add(channel + " " + message);
      }

      @Override
      public void message(String pattern, String channel, String message) {
        got.add(pattern + " " + channel + " " + message);
      }
    });
    subscriber.sync().subscribe(prefix + "news");
    publish.run();
    check(got.poll(20, TimeUnit.SECONDS), prefix + "news hello");
    subscriber.sync().unsubscribe(prefix + "news");
    subscriber.sync().psubscribe(prefix + "n*");
    publish.run();
    check(got.poll(20, TimeUnit.SECONDS), prefix + "n* " + prefix + "news hello");
  }
}
