import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.*;

/**
 * What a running cluster says of itself: ClusterClient BOOTSTRAP OPERATION ARGUMENTS... [-- OPERATION ARGUMENTS...]...
 *
 *   check FOLDER PARTITIONS [SECONDS]   waits for so many partitions with leaders, then writes state.json and the records of each
 *                                       partition, in both isolation levels, as PARTITION.jsonl and PARTITION.read_committed.jsonl
 *   write PARTITION...                  one record by a new idempotent producer into each; prints "PARTITION OFFSET"
 *   resume GROUP [PROTOCOL]             a member joins the group and commits nothing; prints "PARTITION POSITION" of what it gets
 *   transact ID PARTITION               a transaction of one record, committed; prints "PARTITION OFFSET"
 *   goon GROUP [PROTOCOL]               a member reads to the end of its partitions and commits; prints "PARTITION FIRST LAST COUNT"
 *   abort PARTITION...                  ends the transactions that are open in each, as kafka-transactions.sh does
 *   delete TOPIC...                     deletes the topics
 */
public class ClusterClient {
    private static final long SECONDS = 90;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static String bootstrap;

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        List<String> words = new ArrayList<>();
        for (String word : Arrays.asList(given).subList(1, given.length)) {
            if (word.equals("--")) {
                run(words.get(0), words.subList(1, words.size()));
                words = new ArrayList<>();
            } else {
                words.add(word);
            }
        }
        run(words.get(0), words.subList(1, words.size()));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void run(String operation, List<String> rest) throws Exception {
        switch (operation) {
            case "check": check(Path.of(rest.get(0)), Integer.parseInt(rest.get(1)), rest.size() > 2 ? Long.parseLong(rest.get(2)) : SECONDS); break;
            case "write": write(rest); break;
            case "resume": resume(rest.get(0), rest.size() > 1 ? rest.get(1) : "classic"); break;
            case "transact": transact(rest.get(0), place(rest.get(1))); break;
            case "goon": goOn(rest.get(0), rest.size() > 1 ? rest.get(1) : "classic"); break;
            case "abort": abort(rest); break;
            case "delete": delete(rest); break;
            default: throw new IllegalArgumentException(operation);
        }
    }

    private static TopicPartition place(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static Map<String, Object> settings(Object... more) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("key.serializer", ByteArraySerializer.class);
        all.put("value.serializer", ByteArraySerializer.class);
        all.put("key.deserializer", ByteArrayDeserializer.class);
        all.put("value.deserializer", ByteArrayDeserializer.class);
        for (int at = 0; at < more.length; at += 2) {
            all.put((String) more[at], more[at + 1]);
        }
        return all;
    }

    private static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(SECONDS, TimeUnit.SECONDS);
    }

    private static void check(Path folder, int wanted, long seconds) throws Exception {
        Files.createDirectories(folder);
        try (Admin admin = Admin.create(settings())) {
            long begin = System.currentTimeMillis();
            Map<String, TopicDescription> topics = awaitLeaders(admin, wanted, begin + seconds * 1000);
            Map<String, Object> state = new LinkedHashMap<>();
            state.put("milliseconds", System.currentTimeMillis() - begin);
            state.put("clusterId", of(admin.describeCluster().clusterId()));
            List<TopicPartition> led = new ArrayList<>();
            List<Object> partitions = new ArrayList<>();
            for (TopicDescription topic : new TreeMap<>(topics).values()) {
                for (TopicPartitionInfo each : topic.partitions()) {
                    partitions.add(Map.of("topic", topic.name(), "topicId", topic.topicId().toString(), "partition", each.partition(),
                            "leader", each.leader() == null ? -1 : each.leader().id(), "replicas", ids(each.replicas()), "isr", ids(each.isr())));
                    if (each.leader() != null && each.leader().id() >= 0) {
                        led.add(new TopicPartition(topic.name(), each.partition()));
                    }
                }
            }
            state.put("topics", partitions);
            Map<String, Map<String, Long>> offsets = offsets(admin, led);
            state.put("partitionOffsets", offsets);
            state.put("groups", groups(admin));
            state.put("groupOffsets", groupOffsets(admin));
            state.put("logDirs", logDirs(admin));
            state.put("transactions", transactions(admin));
            state.put("configs", configs(admin, topics.keySet()));
            state.put("acls", of(admin.describeAcls(AclBindingFilter.ANY).values()).size());
            state.put("quotas", of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size());
            state.put("scram", new TreeSet<>(of(admin.describeUserScramCredentials().all()).keySet()));
            Files.write(folder.resolve("state.json"), JSON.writerWithDefaultPrettyPrinter().writeValueAsBytes(state));
            consume(folder, led, offsets, "read_uncommitted", "latest", ".jsonl");
            consume(folder, led, offsets, "read_committed", "lastStable", ".read_committed.jsonl");
        }
    }

    private static List<Integer> ids(List<Node> nodes) {
        List<Integer> found = new ArrayList<>();
        nodes.forEach(node -> found.add(node.id()));
        return found;
    }

    private static Map<String, TopicDescription> awaitLeaders(Admin admin, int wanted, long deadline) throws Exception {
        while (true) {
            Set<String> names = of(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
            Map<String, TopicDescription> topics = of(admin.describeTopics(names).allTopicNames());
            long led = topics.values().stream().flatMap(topic -> topic.partitions().stream())
                    .filter(each -> each.leader() != null && each.leader().id() >= 0).count();
            if (led >= wanted || System.currentTimeMillis() > deadline) {
                return topics;
            }
            Thread.sleep(100);
        }
    }

    private static Map<String, Map<String, Long>> offsets(Admin admin, List<TopicPartition> led) throws Exception {
        Map<String, Map<String, Long>> found = new TreeMap<>();
        add(found, "earliest", admin.listOffsets(asked(led, OffsetSpec.earliest())), led);
        add(found, "latest", admin.listOffsets(asked(led, OffsetSpec.latest())), led);
        ListOffsetsOptions committed = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
        add(found, "lastStable", admin.listOffsets(asked(led, OffsetSpec.latest()), committed), led);
        return found;
    }

    private static Map<TopicPartition, OffsetSpec> asked(List<TopicPartition> led, OffsetSpec what) {
        Map<TopicPartition, OffsetSpec> all = new HashMap<>();
        led.forEach(each -> all.put(each, what));
        return all;
    }

    private static void add(Map<String, Map<String, Long>> found, String name, ListOffsetsResult result, List<TopicPartition> led) throws Exception {
        for (TopicPartition each : led) {
            found.computeIfAbsent(each.toString(), key -> new TreeMap<>()).put(name, of(result.partitionResult(each)).offset());
        }
    }

    private static Map<String, Object> groups(Admin admin) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (GroupListing group : of(admin.listGroups().all())) {
            found.put(group.groupId(), group.type().map(Object::toString).orElse("?"));
        }
        return found;
    }

    private static List<Object> groupOffsets(Admin admin) throws Exception {
        List<Object> found = new ArrayList<>();
        for (String group : new TreeMap<>(groups(admin)).keySet()) {
            try {
                Map<TopicPartition, OffsetAndMetadata> offsets = of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                offsets.forEach((place, offset) -> {
                    if (offset != null) {
                        Map<String, Object> row = new LinkedHashMap<>();
                        row.put("groupId", group);
                        row.put("topic", place.topic());
                        row.put("partition", place.partition());
                        row.put("offset", offset.offset());
                        row.put("leaderEpoch", offset.leaderEpoch().orElse(null));
                        row.put("metadata", offset.metadata());
                        found.add(row);
                    }
                });
            } catch (ExecutionException problem) {
                System.err.println(group + ": " + problem);
            }
        }
        return found;
    }

    private static List<Object> logDirs(Admin admin) throws Exception {
        List<Integer> brokers = new ArrayList<>();
        of(admin.describeCluster().nodes()).forEach(node -> brokers.add(node.id()));
        List<Object> found = new ArrayList<>();
        for (Map.Entry<Integer, Map<String, LogDirDescription>> each : of(admin.describeLogDirs(brokers).allDescriptions()).entrySet()) {
            for (Map.Entry<String, LogDirDescription> dir : each.getValue().entrySet()) {
                TreeSet<String> names = new TreeSet<>();
                dir.getValue().replicaInfos().keySet().forEach(place -> names.add(place.toString()));
                found.add(Map.of("broker", each.getKey(), "dir", dir.getKey(), "partitions", names));
            }
        }
        return found;
    }

    private static List<Object> transactions(Admin admin) throws Exception {
        List<Object> found = new ArrayList<>();
        for (TransactionListing each : of(admin.listTransactions().all())) {
            found.add(Map.of("transactionalId", each.transactionalId(), "producerId", each.producerId(), "state", each.state().toString()));
        }
        return found;
    }

    private static Map<String, Map<String, String>> configs(Admin admin, Set<String> topics) throws Exception {
        List<ConfigResource> asked = new ArrayList<>();
        topics.forEach(topic -> asked.add(new ConfigResource(ConfigResource.Type.TOPIC, topic)));
        Map<String, Map<String, String>> found = new TreeMap<>();
        of(admin.describeConfigs(asked).all()).forEach((resource, config) -> config.entries().forEach(entry -> {
            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                found.computeIfAbsent(resource.name(), key -> new TreeMap<>()).put(entry.name(), entry.value());
            }
        }));
        return found;
    }

    private static void consume(Path folder, List<TopicPartition> led, Map<String, Map<String, Long>> offsets, String isolation,
            String stop, String suffix) throws Exception {
        Map<TopicPartition, List<String>> lines = new HashMap<>();
        led.forEach(each -> lines.put(each, new ArrayList<>()));
        long deadline = System.currentTimeMillis() + SECONDS * 1000;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings("isolation.level", isolation, "enable.auto.commit", false,
                "exclude.internal.topics", false))) {
            List<TopicPartition> left = new ArrayList<>(led);
            consumer.assign(left);
            for (TopicPartition each : led) {
                consumer.seek(each, offsets.get(each.toString()).get("earliest"));
            }
            while (!left.isEmpty() && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    lines.get(new TopicPartition(record.topic(), record.partition())).add(line(record, isolation));
                }
                List<TopicPartition> done = new ArrayList<>();
                for (TopicPartition each : left) {
                    if (consumer.position(each) >= offsets.get(each.toString()).get(stop)) {
                        done.add(each);
                    }
                }
                if (left.removeAll(done)) {
                    consumer.assign(left);
                }
            }
            if (!left.isEmpty()) {
                System.err.println("not read to the end: " + left);
            }
        }
        for (TopicPartition each : led) {
            Files.write(folder.resolve(each + suffix), lines.get(each));
        }
    }

    private static String line(ConsumerRecord<byte[], byte[]> record, String isolation) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("offset", record.offset());
        if (isolation.equals("read_uncommitted")) {
            row.put("timestamp", record.timestamp());
            row.put("timestampType", record.timestampType().toString());
            row.put("key", text(record.key()));
            row.put("value", text(record.value()));
            List<Object> headers = new ArrayList<>();
            for (Header header : record.headers()) {
                headers.add(Arrays.asList(header.key(), text(header.value())));
            }
            row.put("headers", headers);
            row.put("leaderEpoch", record.leaderEpoch().orElse(null));
        }
        return JSON.writeValueAsString(row);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static void write(List<String> places) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("enable.idempotence", true))) {
            for (String name : places) {
                TopicPartition at = place(name);
                byte[] content = ("written to " + name).getBytes();
                RecordMetadata sent = producer.send(new ProducerRecord<>(at.topic(), at.partition(), content, content)).get(SECONDS, TimeUnit.SECONDS);
                System.out.println(name + " " + sent.offset());
            }
        }
    }

    private static void resume(String group, String protocol) throws Exception {
        Map<String, Object> all = settings("group.id", group, "enable.auto.commit", false, "auto.offset.reset", "earliest");
        if (!protocol.equals("classic")) {
            all.put("group.protocol", protocol);
        }
        try (Admin admin = Admin.create(settings()); KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(all)) {
            Set<String> topics = new TreeSet<>();
            of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).keySet().forEach(each -> topics.add(each.topic()));
            consumer.subscribe(topics);
            long deadline = System.currentTimeMillis() + SECONDS * 1000;
            while (consumer.assignment().isEmpty() && System.currentTimeMillis() < deadline) {
                consumer.poll(Duration.ofMillis(100));
            }
            consumer.committed(consumer.assignment()).forEach((place, offset) -> {
                if (offset != null) {
                    System.out.println(place + " " + offset.offset());
                }
            });
        }
    }

    private static void goOn(String group, String protocol) throws Exception {
        Map<String, Object> all = settings("group.id", group, "enable.auto.commit", false, "auto.offset.reset", "earliest");
        if (!protocol.equals("classic")) {
            all.put("group.protocol", protocol);
        }
        try (Admin admin = Admin.create(settings()); KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(all)) {
            Map<TopicPartition, OffsetAndMetadata> committed = of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
            Set<String> topics = new TreeSet<>();
            committed.keySet().forEach(each -> topics.add(each.topic()));
            consumer.subscribe(topics);
            Map<TopicPartition, List<Long>> seen = new TreeMap<>(Comparator.comparing(TopicPartition::toString));
            long deadline = System.currentTimeMillis() + SECONDS * 1000;
            while (System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    seen.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), key -> new ArrayList<>()).add(record.offset());
                }
                Set<TopicPartition> here = consumer.assignment();
                if (!here.isEmpty()) {
                    Map<TopicPartition, Long> ends = consumer.endOffsets(here);
                    if (here.stream().allMatch(each -> consumer.position(each) >= ends.get(each))) {
                        break;
                    }
                }
            }
            consumer.commitSync();
            seen.forEach((place, offsets) ->
                    System.out.println(place + " " + offsets.get(0) + " " + offsets.get(offsets.size() - 1) + " " + offsets.size()));
        }
    }

    private static void abort(List<String> places) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            for (String name : places) {
                TopicPartition at = place(name);
                for (ProducerState each : of(admin.describeProducers(List.of(at)).partitionResult(at)).activeProducers()) {
                    if (each.currentTransactionStartOffset().isPresent()) {
                        of(admin.abortTransaction(new AbortTransactionSpec(at, each.producerId(), (short) each.producerEpoch(),
                                each.coordinatorEpoch().orElse(0))).all());
                        System.out.println(name + " " + each.currentTransactionStartOffset().getAsLong());
                    }
                }
            }
        }
    }

    private static void delete(List<String> topics) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            of(admin.deleteTopics(topics).all());
        }
    }

    private static void transact(String id, TopicPartition at) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("transactional.id", id))) {
            producer.initTransactions();
            producer.beginTransaction();
            RecordMetadata sent = producer.send(new ProducerRecord<>(at.topic(), at.partition(), null, id.getBytes())).get(SECONDS, TimeUnit.SECONDS);
            producer.commitTransaction();
            System.out.println(at + " " + sent.offset());
        }
    }
}
