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
import java.util.stream.Stream;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Appends batches of one record of an idempotent producer to a new log with Kafka's own engine, over and over, on one thread.
 *
 * <p>Arguments: COUNT, WORK_DIRECTORY. Every line on standard input asks for one pass, every pass prints one JSON line. Opening and
 * closing are not part of the time.
 */
public final class AppendLoop {
    private final LogDirFailureChannel failures = new LogDirFailureChannel(4);
    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final Path root;

    private AppendLoop(Path root) {
        this.root = root;
        scheduler.startup();
    }

    public static void main(String[] arguments) throws IOException {
        AppendLoop loop = new AppendLoop(Path.of(arguments[1]));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        List<ByteBuffer> batches = singleRecordBatches(Integer.parseInt(arguments[0]));
        while (requests.readLine() != null) {
            loop.clear();
            System.out.println(loop.append(batches));
        }
        System.exit(0);
    }

    private String append(List<ByteBuffer> batches) throws IOException {
        // The engine has stamped the offsets of the last pass into them.
        for (ByteBuffer batch : batches) {
            batch.putLong(0, 0L);
        }
        UnifiedLog log = open(root.resolve("single-0"));
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

    private UnifiedLog open(Path folder) throws IOException {
        return UnifiedLog.create(folder.toFile(), new LogConfig(Map.of()), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
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
