import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.Future;
import java.util.function.Supplier;
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
 * Kafka's own log cleaner on partition folders, without a broker. Standard input has one line for each: folder, the time, bytes of the
 * offset map, bytes of the buffers, and settings of the topic as name=value, with tabs between. The log is opened as cleanly closed,
 * everything counts as replicated, and passes are made until nothing is dirty. Standard output has one line for each: "ok" with what the
 * passes read and wrote together, or the exception.
 */
public class Cleaning {

    /** Time stands still where a line says. */
    private static final class Clock implements Time {
        private long now;
        @Override public long milliseconds() { return now; }
        @Override public long hiResClockMs() { return now; }
        @Override public long nanoseconds() { return now * 1_000_000L; }
        @Override public void sleep(long milliseconds) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
        @Override public <T> T waitForFuture(Future<T> future, long deadline) { throw new UnsupportedOperationException(); }
    }

    private static final Clock CLOCK = new Clock();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            try {
                Map<String, String> settings = new HashMap<>();
                for (int i = 4; i < fields.length; i++) settings.put(fields[i].split("=", 2)[0], fields[i].split("=", 2)[1]);
                CLOCK.now = Long.parseLong(fields[1]);
                System.out.println("ok\t" + clean(new File(fields[0]), Integer.parseInt(fields[2]), Integer.parseInt(fields[3]), settings));
            } catch (Throwable problem) {
                System.out.println(problem.getClass().getName() + "\t" + problem.getMessage());
            }
        }
    }

    private static String clean(File folder, int mapBytes, int bufferBytes, Map<String, String> settings) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        UnifiedLog log = UnifiedLog.create(folder, new LogConfig(settings), 0L, 0L, scheduler, new BrokerTopicStats(), CLOCK, 900000,
            new ProducerStateManagerConfig(86400000, true), 600000, failures, true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        logs.put(log.topicPartition(), log);
        File directory = Path.of(folder.getPath()).getParent().toFile();
        LogCleanerManager manager = new LogCleanerManager(List.of(directory), logs, failures);
        long read = 0, kept = 0;
        for (Optional<LogToClean> next = next(manager); next.isPresent(); next = next(manager)) {
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes, "MD5"), bufferBytes, Math.max(bufferBytes, 1 << 22), 0.9,
                new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "bytes", "bytes", CLOCK), CLOCK, partition -> { });
            Map.Entry<Long, CleanerStats> done = cleaner.clean(next.get());
            manager.doneCleaning(log.topicPartition(), directory, done.getKey());
            read += done.getValue().messagesRead();
            kept += done.getValue().messagesWritten();
        }
        manager.removeMetrics();
        log.flush(true);
        log.close();
        log.removeLogMetrics();
        scheduler.shutdown();
        return read + "\t" + kept;
    }

    private static Optional<LogToClean> next(LogCleanerManager manager) {
        return manager.grabFilthiestCompactedLog(CLOCK, new PreCleanStats());
    }
}
