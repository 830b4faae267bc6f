package kafkalog.benchmarks;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Reads one segment over and over with Kafka's FileRecords, on one thread: check each batch's CRC, iterate its records,
 * look at the sizes of key and value. Nothing is copied out.
 *
 * <p>Argument: FILE. Every line on standard input asks for one pass, every pass prints one JSON line, so that the caller
 * warms it up and interleaves it with other readers.
 */
public final class ReadLoop {
    private ReadLoop() {
    }

    public static void main(String[] arguments) throws IOException {
        File file = new File(arguments[0]);
        BufferSupplier buffers = BufferSupplier.create();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        while (requests.readLine() != null) {
            System.out.println(readOnce(file, buffers));
        }
    }

    private static String readOnce(File file, BufferSupplier buffers) throws IOException {
        long started = System.nanoTime();
        long rows = 0;
        long keyAndValueBytes = 0;
        try (FileRecords segment = FileRecords.open(file, false)) {
            for (RecordBatch batch : segment.batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
                    while (records.hasNext()) {
                        Record record = records.next();
                        rows++;
                        keyAndValueBytes += record.keySize() + record.valueSize();
                    }
                }
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        return String.format("{\"seconds\": %.6f, \"rows\": %d, \"bytes\": %d}", seconds, rows, keyAndValueBytes);
    }
}
