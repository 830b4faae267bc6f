package kafkalog.benchmarks;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own log engine, over and over: `clean SOURCE WORK` gives a copy of the partition folder SOURCE to its cleaner,
 * `append COUNT WORK` appends COUNT batches of one record of an idempotent producer to a new log.
 *
 * <p>Every line on standard input asks for one pass, every pass prints one JSON line. Copying, opening and closing are not
 * part of the time.
 */
public final class EngineLoop {
    private static final int DEDUPE_BYTES = 128 << 20;
    private static final int IO_BYTES = 512 << 10;
    private final LogDirFailureChannel failures = new LogDirFailureChannel(4);
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final Path root;

    private EngineLoop(Path root) {
        this.root = root;
        scheduler.startup();
    }

    public static void main(String[] arguments) throws Exception {
        EngineLoop loop = new EngineLoop(Path.of(arguments[2]));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        List<ByteBuffer> batches = arguments[0].equals("append") ? singleRecordBatches(Integer.parseInt(arguments[1])) : null;
        while (requests.readLine() != null) {
            loop.clear();
            System.out.println(batches == null ? loop.clean(Path.of(arguments[1])) : loop.append(batches));
        }
        System.exit(0);
    }

    private String clean(Path source) throws Exception {
        Path folder = Files.createDirectories(root.resolve(source.getFileName()));
        try (Stream<Path> files = Files.list(source)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                Files.copy(file, folder.resolve(file.getFileName()));
            }
        }
        UnifiedLog log = open(folder, Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01"));
        log.roll();
        log.updateHighWatermark(log.logEndOffset());
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        logs.put(log.topicPartition(), log);
        LogCleanerManager manager = new LogCleanerManager(List.of(root.toFile()), logs, failures);
        LogToClean dirty = manager.grabFilthiestCompactedLog(Time.SYSTEM, new PreCleanStats()).orElseThrow();
        Throttler unlimited = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(DEDUPE_BYTES, "MD5"), IO_BYTES, IO_BYTES << 3, 0.9, unlimited, Time.SYSTEM, partition -> { });
        long started = System.nanoTime();
        CleanerStats stats = cleaner.clean(dirty).getValue();
        double seconds = (System.nanoTime() - started) / 1e9;
        manager.removeMetrics();
        close(log);
        return answer(seconds, stats.messagesWritten());
    }

    private String append(List<ByteBuffer> batches) throws IOException {
        // The engine has stamped the offsets of the last pass into them.
        for (ByteBuffer batch : batches) {
            batch.putLong(0, 0L);
        }
        UnifiedLog log = open(root.resolve("single-0"), Map.of());
        long started = System.nanoTime();
        for (ByteBuffer batch : batches) {
            log.appendAsLeader(MemoryRecords.readableRecords(batch.duplicate()), 0, AppendOrigin.CLIENT, RequestLocal.noCaching(),
                VerificationGuard.SENTINEL, (short) 0);
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        long rows = log.logEndOffset();
        close(log);
        return answer(seconds, rows);
    }

    private UnifiedLog open(Path folder, Map<String, String> settings) throws IOException {
        return UnifiedLog.create(folder.toFile(), new LogConfig(settings), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, failures, true, Optional.empty());
    }

    private static void close(UnifiedLog log) {
        log.close();
        log.removeLogMetrics();
    }

    private void clear() throws IOException {
        if (Files.exists(root)) {
            try (Stream<Path> files = Files.walk(root)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
        Files.createDirectories(root);
    }

    private static List<ByteBuffer> singleRecordBatches(int count) {
        List<ByteBuffer> batches = new ArrayList<>(count);
        byte[] value = new byte[170];
        for (int sequence = 0; sequence < count; sequence++) {
            SimpleRecord record = new SimpleRecord(1_767_225_600_000L + sequence, new byte[10], value);
            batches.add(MemoryRecords.withIdempotentRecords(Compression.NONE, 7L, (short) 0, sequence, record).buffer());
        }
        return batches;
    }

    private static String answer(double seconds, long rows) {
        return String.format("{\"seconds\": %.6f, \"rows\": %d}", seconds, rows);
    }
}
