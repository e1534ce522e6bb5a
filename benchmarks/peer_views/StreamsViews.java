// NEXMark's queries in Kafka Streams: exactly once, state in RocksDB with its changelogs, two threads.
//   java -cp 'LIBS/*' StreamsViews.java QUERY BOOTSTRAP FOLDER GROUP
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.TimestampExtractor;

public class StreamsViews {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Duration TEN = Duration.ofSeconds(10), LATE = Duration.ofSeconds(20), NONE = Duration.ZERO;
  static final Serde<String> TEXT = Serdes.String();
  static final Serde<JsonNode> NODE = Serdes.serdeFrom(
      (topic, node) -> node == null ? null : bytes(node), (topic, bytes) -> bytes == null ? null : node(bytes));

  static byte[] bytes(JsonNode node) {
    try { return JSON.writeValueAsBytes(node); } catch (IOException e) { throw new IllegalStateException(e); }
  }

  static JsonNode node(byte[] bytes) {
    try { return JSON.readTree(bytes); } catch (IOException e) { throw new IllegalStateException(e); }
  }

  public static class EventTime implements TimestampExtractor {
    public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
      return record.value() instanceof JsonNode n && n.has("time_ms") ? n.get("time_ms").asLong() : record.timestamp();
    }
  }

  static KStream<String, JsonNode> events(StreamsBuilder b, String type) {
    return b.stream("event." + type + ".v1", Consumed.with(TEXT, NODE).withTimestampExtractor(new EventTime()));
  }

  static ObjectNode row(JsonNode event, String... fields) {
    ObjectNode row = JSON.createObjectNode();
    row.set("event_id", event.get("id"));
    row.set("bidder", event.get("entity_id"));
    for (String field : fields) row.set(field, event.get("data").get(field));
    return row;
  }

  static boolean isHigher(JsonNode one, JsonNode other) {
    int prices = Long.compare(one.get("price").asLong(), other.get("price").asLong());
    return prices > 0 || prices == 0 && one.get("event_id").asText().compareTo(other.get("event_id").asText()) > 0;
  }

  static KStream<String, JsonNode> found(String query, StreamsBuilder b) {
    KStream<String, JsonNode> bids = events(b, "bid"), people, auctions;
    switch (query) {
      case "q0":
        return bids.map((k, e) -> KeyValue.pair(e.get("id").asText(), row(e, "auction", "price").set("time", e.get("time_ms"))));
      case "q1":
        return bids.map((k, e) -> KeyValue.pair(e.get("id").asText(),
            row(e, "auction").put("euros", e.get("data").get("price").asLong() * 0.908).set("time", e.get("time_ms"))));
      case "q2":
        return bids.filter((k, e) -> Long.parseLong(e.get("data").get("auction").asText().substring(8)) % 123 == 0)
            .map((k, e) -> KeyValue.pair(e.get("id").asText(), row(e, "auction", "price")));
      case "q3":
        people = events(b, "person").filter((k, e) -> Set.of("OR", "ID", "CA").contains(e.get("data").get("state").asText()));
        auctions = events(b, "auction").filter((k, e) -> e.get("data").get("category").asInt() == 10)
            .selectKey((k, e) -> e.get("data").get("seller").asText());
        return auctions.join(people,
            (auction, person) -> {
              ObjectNode row = row(person, "name", "city", "state");
              row.set("auction_event", auction.get("id"));
              return (JsonNode) row;
            },
            JoinWindows.ofTimeDifferenceAndGrace(NONE, LATE).before(Duration.ofHours(1)), StreamJoined.with(TEXT, NODE, NODE))
            .selectKey((k, row) -> row.get("auction_event").asText() + row.get("event_id").asText());
      case "q7":
        return bids.map((k, e) -> KeyValue.pair("all", (JsonNode) row(e, "auction", "price")))
            .groupByKey(Grouped.with(TEXT, NODE)).windowedBy(TimeWindows.ofSizeAndGrace(TEN, LATE))
            .reduce((one, other) -> isHigher(one, other) ? one : other, Materialized.with(TEXT, NODE))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream((window, row) -> String.valueOf(window.window().start()));
      case "q8":
        people = events(b, "person");
        auctions = events(b, "auction").selectKey((k, e) -> e.get("data").get("seller").asText());
        return people.join(auctions,
            (person, auction) -> person.get("time_ms").asLong() / 10_000 == auction.get("time_ms").asLong() / 10_000 ? person : null,
            JoinWindows.ofTimeDifferenceAndGrace(TEN, LATE), StreamJoined.with(TEXT, NODE, NODE))
            .filter((k, person) -> person != null)
            .groupByKey(Grouped.with(TEXT, NODE)).windowedBy(TimeWindows.ofSizeAndGrace(TEN, LATE))
            .reduce((one, other) -> one, Materialized.with(TEXT, NODE))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream((window, row) -> window.key() + window.window().start()).mapValues(person -> row(person, "name"));
      case "q11":
        return bids.groupByKey(Grouped.with(TEXT, NODE)).windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN, LATE))
            .count(Materialized.with(TEXT, Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream((window, count) -> window.key() + window.window().start())
            .mapValues((key, count) -> JSON.createObjectNode().put("bidder", key).put("bids", count));
      default:
        throw new IllegalArgumentException(query);
    }
  }

  public static void main(String[] a) throws Exception {
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, a[3]);
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, a[1]);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    p.put(StreamsConfig.STATE_DIR_CONFIG, a[2]);
    p.put("auto.offset.reset", "earliest");
    p.put("producer.linger.ms", 20);
    p.put("producer.compression.type", "zstd");
    StreamsBuilder b = new StreamsBuilder();
    found(a[0], b).to("streams." + a[0], Produced.with(TEXT, NODE));
    KafkaStreams s = new KafkaStreams(b.build(), p);
    s.setUncaughtExceptionHandler(e -> { e.printStackTrace(); return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION; });
    s.setStateListener((now, before) -> { if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) System.exit(1); });
    s.start();
    Thread.currentThread().join();
  }
}
