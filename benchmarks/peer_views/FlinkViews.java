// NEXMark's queries in Flink's SQL, in one process: exactly once, state in RocksDB, a checkpoint each second.
//   java -cp 'LIBS/*' FlinkViews.java QUERY BOOTSTRAP FOLDER GROUP
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

public class FlinkViews {
  static final int SLOTS = 2;

  static String table(String type, String data, String bootstrap, String group) {
    return "CREATE TABLE " + type + " (id STRING, entity_id STRING, time_ms BIGINT, data ROW<" + data + ">,"
        + " `time` AS TO_TIMESTAMP_LTZ(time_ms, 3), WATERMARK FOR `time` AS `time` - INTERVAL '20' SECOND) WITH ("
        + "'connector' = 'kafka', 'topic' = 'event." + type + ".v1', 'properties.bootstrap.servers' = '" + bootstrap + "',"
        + "'properties.group.id' = '" + group + "', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json',"
        + "'json.ignore-parse-errors' = 'true')";
  }

  static String select(String query) {
    return switch (query) {
      case "q0" -> "SELECT id AS event_id, data.auction AS auction, entity_id AS bidder, data.price AS price, `time` FROM bid";
      case "q1" -> "SELECT id AS event_id, data.auction AS auction, entity_id AS bidder, data.price * 0.908 AS euros, `time` FROM bid";
      case "q2" -> "SELECT id AS event_id, data.auction AS auction, data.price AS price FROM bid"
          + " WHERE MOD(CAST(SUBSTRING(data.auction, 9) AS BIGINT), 123) = 0";
      case "q3" -> "SELECT a.id AS auction_event, p.id AS person_event, p.data.name AS name, p.data.city AS city, p.data.state AS state"
          + " FROM auction a JOIN person p ON a.data.seller = p.entity_id"
          + " AND p.`time` BETWEEN a.`time` - INTERVAL '1' HOUR AND a.`time`"
          + " WHERE a.data.category = 10 AND p.data.state IN ('OR', 'ID', 'CA')";
      case "q7" -> "SELECT CAST(window_start AS STRING) AS begins, price, auction, bidder FROM (SELECT window_start, data.price AS price,"
          + " data.auction AS auction, entity_id AS bidder, ROW_NUMBER() OVER"
          + " (PARTITION BY window_start, window_end ORDER BY data.price DESC, id DESC) AS place"
          + " FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`time`), INTERVAL '10' SECOND))) WHERE place = 1";
      case "q8" -> "SELECT P.entity_id AS id, MAX(P.name) AS name, CAST(P.window_start AS STRING) AS begins FROM"
          + " (SELECT entity_id, data.name AS name, window_start, window_end FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`time`), INTERVAL '10' SECOND))) P"
          + " JOIN (SELECT data.seller AS seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`time`), INTERVAL '10' SECOND))) A"
          + " ON P.entity_id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end"
          + " GROUP BY P.entity_id, P.window_start, P.window_end";
      case "q11" -> "SELECT entity_id AS bidder, CAST(window_start AS STRING) AS begins, COUNT(*) AS bids FROM"
          + " TABLE(SESSION(TABLE bid PARTITION BY entity_id, DESCRIPTOR(`time`), INTERVAL '10' SECOND))"
          + " GROUP BY entity_id, window_start, window_end";
      default -> throw new IllegalArgumentException(query);
    };
  }

  static String columns(String query) {
    return switch (query) {
      case "q0" -> "event_id STRING, auction STRING, bidder STRING, price BIGINT, `time` TIMESTAMP_LTZ(3)";
      case "q1" -> "event_id STRING, auction STRING, bidder STRING, euros DOUBLE, `time` TIMESTAMP_LTZ(3)";
      case "q2" -> "event_id STRING, auction STRING, price BIGINT";
      case "q3" -> "auction_event STRING, person_event STRING, name STRING, city STRING, state STRING";
      case "q7" -> "begins STRING, price BIGINT, auction STRING, bidder STRING";
      case "q8" -> "id STRING, name STRING, begins STRING";
      default -> "bidder STRING, begins STRING, bids BIGINT";
    };
  }

  static String key(String query) {
    return switch (query) {
      case "q3" -> "auction_event;person_event";
      case "q7" -> "begins";
      case "q8" -> "id;begins";
      case "q11" -> "bidder;begins";
      default -> "event_id";
    };
  }

  public static void main(String[] a) throws Exception {
    String query = a[0], bootstrap = a[1], folder = a[2], group = a[3];
    Configuration c = new Configuration();
    c.setString("state.backend.type", "rocksdb");
    c.setString("execution.checkpointing.dir", "file://" + folder + "/checkpoints");
    c.setString("execution.checkpointing.interval", "1 s");
    c.setString("io.tmp.dirs", folder);
    c.setString("web.tmpdir", folder);
    c.setString("taskmanager.numberOfTaskSlots", String.valueOf(SLOTS));
    c.setString("taskmanager.memory.managed.size", "256m");
    c.setString("pipeline.object-reuse", "true");
    c.setString("table.local-time-zone", "UTC");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(SLOTS, c);
    StreamTableEnvironment t = StreamTableEnvironment.create(env);
    t.executeSql(table("bid", "`auction` STRING, `price` BIGINT, `channel` STRING, `url` STRING", bootstrap, group));
    t.executeSql(table("person", "`name` STRING, `email` STRING, `city` STRING, `state` STRING", bootstrap, group));
    t.executeSql(table("auction", "`item` STRING, `initial` BIGINT, `reserve` BIGINT, `seller` STRING, `category` BIGINT", bootstrap, group));
    t.executeSql("CREATE TABLE found (" + columns(query) + ") WITH ('connector' = 'kafka', 'topic' = 'flink." + query + "',"
        + "'properties.bootstrap.servers' = '" + bootstrap + "', 'key.format' = 'json', 'key.fields' = '" + key(query) + "',"
        + "'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '" + group + "',"
        + "'properties.transaction.timeout.ms' = '300000', 'properties.linger.ms' = '20', 'properties.compression.type' = 'zstd')");
    t.executeSql("INSERT INTO found " + select(query)).await();
  }
}
