import java.io.File;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The clients of one Kafka release, told what to do line by line: GoldenClient BOOTSTRAP LOG_DIRECTORY SCRIPT.
 *
 * A line is an operation and its arguments with tabs between them; see `operate`. Byte strings are in base64, a null is "-".
 * `consume` prints what it has read as a line of topic-partition, isolation, first offset, end offset and number of records.
 * The first operation that fails ends the program. At the end nothing is closed: an open transaction stays open.
 */
public class GoldenClient {
    private static final long SECONDS = 90;
    private static final String NULL = "-";

    private final String bootstrap;
    private final File logDirectory;
    private final Admin admin;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> sent = new HashMap<>();

    private GoldenClient(String bootstrap, File logDirectory) {
        this.bootstrap = bootstrap;
        this.logDirectory = logDirectory;
        this.admin = Admin.create(settings(""));
    }

    public static void main(String[] arguments) throws Exception {
        GoldenClient client = new GoldenClient(arguments[0], new File(arguments[1]));
        int number = 0;
        for (String line : Files.readAllLines(Path.of(arguments[2]))) {
            number++;
            try {
                client.operate(line.split("\t", -1));
            } catch (Throwable problem) {
                System.err.println("line " + number + ", " + line.substring(0, Math.min(line.length(), 120)) + ": " + problem);
                problem.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void operate(String[] given) throws Exception {
        switch (given[0]) {
            case "topic": createTopic(given[1], Integer.parseInt(given[2]), settingsOf(given[3])); break;
            case "settings": alterTopic(given[1], settingsOf(given[2])); break;
            case "producer": startProducer(given[1], settings(given[2])); break;
            case "send": send(given); break;
            case "flush": flush(given[1]); break;
            case "close": flush(given[1]); producers.remove(given[1]).close(); break;
            case "begin": producers.get(given[1]).beginTransaction(); break;
            case "commit": producers.get(given[1]).commitTransaction(); break;
            case "abort": producers.get(given[1]).abortTransaction(); break;
            case "offsets": sendOffsets(producers.get(given[1]), given[2], place(given, 3), Long.parseLong(given[5])); break;
            case "delete-records": deleteRecords(place(given, 1), Long.parseLong(given[3])); break;
            case "group": readAsGroup(given[1], given[2], Integer.parseInt(given[3]), settings(given[4])); break;
            case "delete-group": admin.deleteConsumerGroups(List.of(given[1])).all().get(SECONDS, TimeUnit.SECONDS); break;
            case "wait-cleaned": await(given, () -> isCleaned(place(given, 1))); break;
            case "wait-start": await(given, () -> segments(place(given, 1)).first() > 0); break;
            case "pause": Thread.sleep(Long.parseLong(given[1])); break;
            case "consume": consume(place(given, 1), given[3], Path.of(given[4])); break;
            default: throw new IllegalArgumentException("no such operation: " + given[0]);
        }
    }

    private static TopicPartition place(String[] given, int at) {
        return new TopicPartition(given[at], Integer.parseInt(given[at + 1]));
    }

    private static Map<String, String> settingsOf(String text) {
        Map<String, String> found = new HashMap<>();
        for (String each : text.split(";")) {
            if (!each.isEmpty()) {
                int at = each.indexOf('=');
                found.put(each.substring(0, at), each.substring(at + 1));
            }
        }
        return found;
    }

    private Properties settings(String text) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.putAll(settingsOf(text));
        return all;
    }

    private static byte[] bytes(String text) {
        return text.equals(NULL) ? null : Base64.getDecoder().decode(text);
    }

    private void createTopic(String name, int partitions, Map<String, String> settings) throws Exception {
        NewTopic topic = new NewTopic(name, partitions, (short) 1).configs(settings);
        admin.createTopics(List.of(topic)).all().get(SECONDS, TimeUnit.SECONDS);
        await(new String[] {"topic", name}, () -> partitionFolder(new TopicPartition(name, partitions - 1)).isDirectory());
    }

    private void alterTopic(String name, Map<String, String> settings) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        settings.forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get(SECONDS, TimeUnit.SECONDS);
        Thread.sleep(1500); // until the broker has heard of it
    }

    private void startProducer(String id, Properties settings) {
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        producers.put(id, new KafkaProducer<>(settings));
        sent.put(id, new ArrayList<>());
        if (settings.containsKey("transactional.id")) {
            producers.get(id).initTransactions();
        }
    }

    private void send(String[] given) {
        List<Header> headers = null;
        if (!given[7].equals(NULL)) {
            headers = new ArrayList<>();
            for (String each : given[7].split(",")) {
                if (!each.isEmpty()) {
                    String[] parts = each.split(":", -1);
                    headers.add(new RecordHeader(new String(bytes(parts[0]), StandardCharsets.UTF_8), bytes(parts[1])));
                }
            }
        }
        Long timestamp = given[4].equals(NULL) ? null : Long.valueOf(given[4]);
        int partition = Integer.parseInt(given[3]);
        var record = new ProducerRecord<>(given[2], partition, timestamp, bytes(given[5]), bytes(given[6]), headers);
        sent.get(given[1]).add(producers.get(given[1]).send(record));
    }

    private void flush(String id) throws Exception {
        producers.get(id).flush();
        for (Future<RecordMetadata> each : sent.get(id)) {
            each.get(SECONDS, TimeUnit.SECONDS);
        }
        sent.get(id).clear();
    }

    private static void sendOffsets(KafkaProducer<byte[], byte[]> producer, String group, TopicPartition of, long offset) {
        producer.sendOffsetsToTransaction(Map.of(of, new OffsetAndMetadata(offset, "größe")), new ConsumerGroupMetadata(group));
    }

    private void deleteRecords(TopicPartition of, long before) throws Exception {
        admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(before))).all().get(SECONDS, TimeUnit.SECONDS);
    }

    private KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings);
    }

    private void readAsGroup(String group, String topic, int wanted, Properties settings) {
        settings.put("group.id", group);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            int found = 0;
            for (long end = deadline(); found < wanted; found += consumer.poll(Duration.ofMillis(200)).count()) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("the group got " + found + " of " + wanted + " records");
                }
            }
            consumer.commitSync();
            consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7, "größe")));
        }
    }

    private void consume(TopicPartition from, String isolation, Path target) throws Exception {
        boolean whole = isolation.equals("read_uncommitted");
        Properties settings = settings("max.partition.fetch.bytes=4194304;isolation.level=" + isolation);
        Files.createDirectories(target.getParent());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings);
                PrintWriter lines = new PrintWriter(Files.newBufferedWriter(target, StandardCharsets.UTF_8))) {
            consumer.assign(List.of(from));
            long end = consumer.endOffsets(List.of(from)).get(from);
            consumer.seekToBeginning(List.of(from));
            long start = consumer.position(from);
            int count = 0;
            long deadline = deadline();
            while (consumer.position(from) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    lines.println(whole ? described(record) : "{\"offset\":" + record.offset() + "}");
                    count++;
                    deadline = deadline();
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("no more records at " + consumer.position(from) + " of " + end);
                }
            }
            System.out.println(String.join("\t", from.toString(), isolation, "" + start, "" + end, "" + count));
        }
    }

    private static String described(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add("[" + quoted(header.key()) + "," + quoted(header.value()) + "]");
        }
        return "{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
                + ",\"timestampType\":\"" + record.timestampType() + "\",\"key\":" + quoted(record.key())
                + ",\"value\":" + quoted(record.value()) + ",\"headers\":[" + String.join(",", headers) + "]"
                + ",\"leaderEpoch\":" + record.leaderEpoch().map(String::valueOf).orElse("null") + "}";
    }

    private static String quoted(byte[] content) {
        return content == null ? "null" : "\"" + Base64.getEncoder().encodeToString(content) + "\"";
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each <= '~' && each != '"' && each != '\\';
            quoted.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        }
        return quoted.append('"').toString();
    }

    private static long deadline() {
        return System.currentTimeMillis() + SECONDS * 1000;
    }

    private static void await(String[] what, BooleanSupplier done) throws InterruptedException {
        for (long end = deadline(); !done.getAsBoolean(); Thread.sleep(100)) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("waited in vain: " + String.join(" ", what));
            }
        }
    }

    private File partitionFolder(TopicPartition of) {
        return new File(logDirectory, of.toString());
    }

    /** The base offsets of the partition's segments. */
    private TreeSet<Long> segments(TopicPartition of) {
        TreeSet<Long> found = new TreeSet<>();
        for (String name : partitionFolder(of).list()) {
            if (name.endsWith(".log")) {
                found.add(Long.parseLong(name.substring(0, 20)));
            }
        }
        return found;
    }

    /** Whether the cleaner has come to the active segment. */
    private boolean isCleaned(TopicPartition of) {
        try {
            for (String line : Files.readAllLines(logDirectory.toPath().resolve("cleaner-offset-checkpoint"))) {
                String[] parts = line.split(" ");
                if (parts.length == 3 && parts[0].equals(of.topic()) && parts[1].equals("" + of.partition())) {
                    return Long.parseLong(parts[2]) == segments(of).last();
                }
            }
        } catch (java.io.IOException absent) {
            return false; // it is written after the first pass
        }
        return false;
    }
}
