import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * What the Admin API says of a cluster of one node.
 *
 *   ClusterStory BOOTSTRAP fill            first fills the cluster with everything that its metadata can hold and changes some of it
 *   ClusterStory BOOTSTRAP tell [NOT...]   names of what this release does not know, as `fill` found it
 */
public class ClusterStory {
    private static final long SECONDS = 90;
    private static final List<String> NOT_HERE = new ArrayList<>();
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        admin = Admin.create(settings());
        if (given[1].equals("fill")) {
            topics();
            configs();
            acls();
            quotas();
            optionally("scram", ClusterStory::credentials);
            records();
            groups();
        } else {
            NOT_HERE.addAll(List.of(given).subList(2, given.length));
        }
        System.out.println(new ObjectMapper().writeValueAsString(told()));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private interface Step {
        void run() throws Exception;
    }

    /** Something that older releases refuse. */
    private static void optionally(String name, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException | KafkaException error) {
            NOT_HERE.add(name + ": " + error.getMessage());
        }
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

    // -- what is done ------------------------------------------------------------------------------------------------------------

    private static void topics() throws Exception {
        NewTopic compacted = new NewTopic("compacted.topic", 1, (short) 1).configs(Map.of("cleanup.policy", "compact"));
        List<NewTopic> wanted = List.of(new NewTopic("plain", 3, (short) 1), compacted, topic("gone"), topic("again"), topic("empty"));
        of(admin.createTopics(wanted).all());
        of(admin.deleteTopics(List.of("gone", "again")).all());
        for (int left = 50; left > 0; left--) {  // the deletion may not have come to the broker yet
            try {
                of(admin.createTopics(List.of(topic("again"))).all());
                break;
            } catch (ExecutionException error) {
                Thread.sleep(100);
            }
        }
        of(admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(4))).all());
    }

    private static NewTopic topic(String name) {
        return new NewTopic(name, 2, (short) 1);
    }

    private static void configs() throws Exception {
        set(ConfigResource.Type.TOPIC, "plain", "max.message.bytes", "2000000");
        set(ConfigResource.Type.TOPIC, "plain", "retention.ms", "-1");
        set(ConfigResource.Type.TOPIC, "empty", "min.insync.replicas", "1");
        set(ConfigResource.Type.BROKER, "1", "log.cleaner.threads", "2");
        set(ConfigResource.Type.BROKER, "1", "num.io.threads", "6");
        set(ConfigResource.Type.BROKER, "", "log.retention.ms", "700000000");
        set(ConfigResource.Type.BROKER, "1", "num.io.threads", null);
        set(ConfigResource.Type.TOPIC, "plain", "retention.ms", null);
        optionally("client metrics", () -> set(ConfigResource.Type.CLIENT_METRICS, "all-clients", "interval.ms", "60000"));
        optionally("group configs", () -> set(ConfigResource.Type.GROUP, "new-group", "consumer.session.timeout.ms", "50000"));
    }

    private static void set(ConfigResource.Type type, String resource, String name, String value) throws Exception {
        AlterConfigOp.OpType operation = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), operation);
        of(admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, resource), List.of(change))).all());
    }

    private static void acls() throws Exception {
        AclBinding gone = acl(ResourceType.TOPIC, "gone", PatternType.LITERAL, "User:eve", AclOperation.READ, AclPermissionType.ALLOW);
        of(admin.createAcls(List.of(
            acl(ResourceType.TOPIC, "plain", PatternType.LITERAL, "User:ann", AclOperation.WRITE, AclPermissionType.ALLOW),
            acl(ResourceType.TOPIC, "pre", PatternType.PREFIXED, "User:ann", AclOperation.ALL, AclPermissionType.ALLOW),
            acl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*", AclOperation.DELETE, AclPermissionType.DENY),
            acl(ResourceType.GROUP, "g", PatternType.PREFIXED, "User:bob", AclOperation.READ, AclPermissionType.ALLOW),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:bob", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
            acl(ResourceType.TRANSACTIONAL_ID, "tx", PatternType.LITERAL, "User:bob", AclOperation.WRITE, AclPermissionType.ALLOW),
            gone)).all());
        of(admin.deleteAcls(List.of(gone.toFilter())).all());
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, String who, AclOperation what, AclPermissionType how) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(who, "127.0.0.1", what, how));
    }

    private static void quotas() throws Exception {
        Map<String, String> defaultUser = new HashMap<>();
        defaultUser.put("user", null);
        quota(Map.of("user", "ann"), "producer_byte_rate", 1_000_000.0);
        quota(Map.of("user", "ann", "client-id", "app"), "consumer_byte_rate", 123456.0);
        quota(defaultUser, "request_percentage", 50.0);
        quota(Map.of("ip", "10.0.0.1"), "connection_creation_rate", 10.0);
        quota(Map.of("client-id", "gone"), "producer_byte_rate", 1.0);
        quota(Map.of("client-id", "gone"), "producer_byte_rate", null);
    }

    private static void quota(Map<String, String> entity, String key, Double value) throws Exception {
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op(key, value);
        of(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(change)))).all());
    }

    private static void credentials() throws Exception {
        of(admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("ann", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "a-password"),
            new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000), "b-password"),
            new UserScramCredentialUpsertion("eve", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "c-password"))).all());
        of(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256))).all());
    }

    private static void records() throws Exception {
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings("acks", "all"))) {
            for (int number = 0; number < 40; number++) {
                producer.send(new ProducerRecord<>("plain", number % 4, ("k" + number).getBytes(), ("v" + number).getBytes()));
            }
        }
        for (int left = 5; ; left--) {  // releases before 4.0 now and then refuse a commit of offsets while they look up its transaction
            try {
                transactions();
                return;
            } catch (KafkaException error) {
                if (left == 0) {
                    throw error;
                }
            }
        }
    }

    private static void transactions() throws Exception {
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings("transactional.id", "tx", "transaction.timeout.ms", 60000))) {
            producer.initTransactions();
            for (boolean commit : new boolean[] {true, false, true}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("compacted.topic", 0, "k".getBytes(), "v".getBytes())).get();
                Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(new TopicPartition("plain", 1), new OffsetAndMetadata(commit ? 4 : 9));
                producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata("in-transactions"));
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                Thread.sleep(2000);  // older releases still write the markers of this one
            }
        }
    }

    private static void groups() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> first = new HashMap<>();
        first.put(new TopicPartition("plain", 0), new OffsetAndMetadata(3, Optional.of(0), "a note"));
        first.put(new TopicPartition("again", 1), new OffsetAndMetadata(0));
        of(admin.alterConsumerGroupOffsets("simple", first).all());
        of(admin.deleteConsumerGroupOffsets("simple", Set.of(new TopicPartition("again", 1))).all());
        of(admin.alterConsumerGroupOffsets("deleted", first).all());
        of(admin.deleteConsumerGroups(List.of("deleted")).all());
        subscribe(settings("group.id", "classic-group", "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        optionally("new protocol", () -> subscribe(settings("group.id", "new-group", "group.protocol", "consumer",
            "auto.offset.reset", "earliest", "enable.auto.commit", "false")));
    }

    private static void subscribe(Map<String, Object> settings) throws Exception {
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of("plain"));
            int read = 0;
            for (long until = System.nanoTime() + SECONDS * 1_000_000_000L / 2; read < 40 && System.nanoTime() < until; ) {
                read += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
        }
    }

    // -- what the Admin API says -------------------------------------------------------------------------------------------------

    private static Map<String, Object> told() throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("notHere", NOT_HERE);
        all.put("topics", describedTopics());
        all.put("configs", describedConfigs());
        all.put("acls", of(admin.describeAcls(AclBindingFilter.ANY).values()).stream().map(each -> List.of(
            each.pattern().resourceType().name(), each.pattern().name(), each.pattern().patternType().name(), each.entry().principal(),
            each.entry().host(), each.entry().operation().name(), each.entry().permissionType().name())).collect(Collectors.toList()));
        List<Object> quotas = new ArrayList<>();
        of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).forEach((entity, values) ->
            values.forEach((key, value) -> quotas.add(List.of(entity.entries(), key, value))));
        all.put("quotas", quotas);
        List<Object> credentials = new ArrayList<>();
        optionally("describe scram", () -> of(admin.describeUserScramCredentials().all()).forEach((user, found) ->
            found.credentialInfos().forEach(each -> credentials.add(List.of(user, each.mechanism().mechanismName(), each.iterations())))));
        all.put("credentials", credentials);
        Map<String, Object> features = new TreeMap<>();
        of(admin.describeFeatures().featureMetadata()).finalizedFeatures().forEach((name, range) -> features.put(name, range.maxVersionLevel()));
        all.put("features", features);
        all.put("groupOffsets", committed());
        return all;
    }

    private static List<Object> describedTopics() throws Exception {
        List<Object> found = new ArrayList<>();
        Set<String> names = of(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
        for (TopicDescription topic : of(admin.describeTopics(names).allTopicNames()).values()) {
            for (TopicPartitionInfo each : topic.partitions()) {
                Function<List<Node>, List<Integer>> ids = nodes -> nodes.stream().map(Node::id).collect(Collectors.toList());
                found.add(List.of(topic.name(), topic.topicId().toString(), each.partition(), ids.apply(each.replicas())));
            }
        }
        return found;
    }

    private static List<Object> describedConfigs() throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        of(admin.listTopics(new ListTopicsOptions().listInternal(true)).names()).forEach(name -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name)));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, "1"));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        Map.of("client metrics", new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "all-clients"),
               "group configs", new ConfigResource(ConfigResource.Type.GROUP, "new-group")).forEach((name, resource) -> {
            if (NOT_HERE.stream().noneMatch(each -> each.startsWith(name))) {
                resources.add(resource);
            }
        });
        List<Object> found = new ArrayList<>();
        Set<ConfigEntry.ConfigSource> own = Set.of(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG,
            ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
            ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG);
        for (ConfigResource resource : resources) {
            for (ConfigEntry entry : of(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()) {
                boolean inherited = !resource.name().isEmpty() && entry.source() == ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG;
                if (own.contains(entry.source()) && !inherited) {
                    found.add(List.of(resource.type().name(), resource.name(), entry.name(), entry.value()));
                }
            }
        }
        return found;
    }

    private static List<Object> committed() throws Exception {
        List<Object> found = new ArrayList<>();
        for (String group : List.of("simple", "deleted", "in-transactions", "classic-group", "new-group")) {
            of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((place, offset) -> {
                if (offset != null) {
                    found.add(Arrays.asList(group, place.topic(), place.partition(), offset.offset(), offset.leaderEpoch().orElse(null), offset.metadata()));
                }
            });
        }
        return found;
    }
}
