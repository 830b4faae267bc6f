import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own recovery of partition folders, without a broker. Standard input has one line for each: folder, index.interval.bytes and
 * log start offset, with tabs between. Every segment is recovered as after a crash, then the log is closed as at a clean stop.
 * Standard output has one line for each: "ok" with the end offset, or the exception.
 */
public class Recovery {

    /** Time stands still in 1970, so that no producer is too old. */
    private static final Time CLOCK = new Time() {
        @Override public long milliseconds() { return 0; }
        @Override public long hiResClockMs() { return 0; }
        @Override public long nanoseconds() { return 0; }
        @Override public void sleep(long milliseconds) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
        @Override public <T> T waitForFuture(Future<T> future, long deadline) { throw new UnsupportedOperationException(); }
    };

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            try {
                System.out.println("ok\t" + recover(scheduler, new File(fields[0]), fields[1], Long.parseLong(fields[2])));
            } catch (Throwable problem) {
                System.out.println(problem.getClass().getName() + "\t" + problem.getMessage());
            }
        }
        scheduler.shutdown();
    }

    private static long recover(KafkaScheduler scheduler, File folder, String interval, long start) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("index.interval.bytes", interval);
        UnifiedLog log = UnifiedLog.create(folder, new LogConfig(settings), start, 0L, scheduler, new BrokerTopicStats(), CLOCK, 900000,
            new ProducerStateManagerConfig(86400000, true), 600000, new LogDirFailureChannel(1), false, Optional.empty());
        long end = log.logEndOffset();
        log.flush(true);
        log.close();
        return end;
    }
}
