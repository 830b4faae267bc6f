package kafkalog.benchmarks;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
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
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Compacts one log over and over with Kafka's own Cleaner, on one thread. Each time a fresh copy is opened, and only the pass over it
 * is timed.
 *
 * <p>Arguments: LOG_DIRECTORY (with the partition t-0), WORK_DIRECTORY, bytes of the offset map, segment.bytes. Every line on standard
 * input asks for one pass, every pass prints one JSON line; its rows are the records that were kept.
 */
public final class CleanLoop {
    private static final int BUFFER_BYTES = 524288;

    private CleanLoop() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        while (requests.readLine() != null) {
            Path work = Path.of(arguments[1]);
            copy(Path.of(arguments[0]), work);
            System.out.println(cleanOnce(work, Integer.parseInt(arguments[2]), arguments[3]));
        }
    }

    private static void copy(Path source, Path work) throws IOException {
        if (Files.exists(work)) {
            try (Stream<Path> old = Files.walk(work)) {
                old.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        }
        Files.createDirectories(work.resolve("t-0"));
        try (Stream<Path> files = Files.list(source.resolve("t-0"))) {
            for (Path file : (Iterable<Path>) files::iterator) {
                Files.copy(file, work.resolve("t-0").resolve(file.getFileName()));
            }
        }
    }

    private static String cleanOnce(Path work, int mapBytes, String segmentBytes) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0", "segment.bytes", segmentBytes));
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        UnifiedLog log = UnifiedLog.create(work.resolve("t-0").toFile(), config, 0L, 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900000,
            new ProducerStateManagerConfig(86400000, true), 600000, failures, false, Optional.empty());
        log.roll();
        log.updateHighWatermark(log.logEndOffset());
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        logs.put(log.topicPartition(), log);
        LogCleanerManager manager = new LogCleanerManager(List.of(work.toFile()), logs, failures);
        LogToClean dirty = manager.grabFilthiestCompactedLog(Time.SYSTEM, new PreCleanStats()).orElseThrow();
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes), BUFFER_BYTES, 8 * BUFFER_BYTES, 0.9,
            new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "bytes", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        long started = System.nanoTime();
        CleanerStats stats = cleaner.clean(dirty).getValue();
        double seconds = (System.nanoTime() - started) / 1e9;
        manager.removeMetrics();
        log.close();
        log.removeLogMetrics();
        scheduler.shutdown();
        return String.format("{\"seconds\": %.6f, \"rows\": %d, \"bytes\": %d}", seconds, stats.messagesWritten(), stats.bytesRead());
    }
}
