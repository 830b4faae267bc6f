package kafkalog.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Writes one segment file with Kafka's own record builder.
 *
 * <p>Arguments: FILE MAGIC CODEC RECORD_COUNT MAX_BYTES. It stops at whichever limit comes first, on a whole batch, and
 * prints one JSON line with what it wrote. The same arguments give the same records on every machine.
 */
public final class WriteSegments {
    private static final int RECORDS_PER_BATCH = 150;
    private static final long FIRST_TIMESTAMP_MS = 1_767_225_600_000L;
    private static final Header[] NO_HEADERS = {};
    private static final String[] STATUSES = {"created", "paid", "packed", "shipped", "delivered", "returned"};
    private static final String[] CITIES = {"Berlin", "Lisbon", "Nairobi", "Osaka", "Quito", "Reykjavik", "Toronto", "Wellington"};

    private final Random random = new Random(20260101L);
    private final byte magic;
    private final Compression compression;

    private WriteSegments(byte magic, Compression compression) {
        this.magic = magic;
        this.compression = compression;
    }

    public static void main(String[] arguments) throws IOException {
        Path file = Path.of(arguments[0]);
        WriteSegments writer = new WriteSegments(Byte.parseByte(arguments[1]), Compression.of(arguments[2]).build());
        writer.write(file, Long.parseLong(arguments[3]), Long.parseLong(arguments[4]));
    }

    private void write(Path file, long recordLimit, long byteLimit) throws IOException {
        ByteBuffer scratch = ByteBuffer.allocate(1 << 20);
        long offset = 0;
        long size = 0;
        try (FileChannel channel = FileChannel.open(file,
                StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            while (offset < recordLimit) {
                int count = (int) Math.min(RECORDS_PER_BATCH, recordLimit - offset);
                scratch.clear();
                MemoryRecords batch = buildBatch(scratch, offset, count);
                if (size + batch.sizeInBytes() > byteLimit) {
                    break;
                }
                ByteBuffer bytes = batch.buffer();
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
                size += batch.sizeInBytes();
                offset += count;
            }
        }
        System.out.printf("{\"records\": %d, \"bytes\": %d}%n", offset, Files.size(file));
    }

    private MemoryRecords buildBatch(ByteBuffer scratch, long baseOffset, int count) {
        TimestampType timestampType = magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(scratch, magic, compression, timestampType, baseOffset);
        for (long offset = baseOffset; offset < baseOffset + count; offset++) {
            long timestampMs = magic == RecordBatch.MAGIC_VALUE_V0 ? RecordBatch.NO_TIMESTAMP : FIRST_TIMESTAMP_MS + offset;
            builder.appendWithOffset(offset, timestampMs, nextKey(), nextValue(offset), nextHeaders(offset));
        }
        return builder.build();
    }

    private byte[] nextKey() {
        return String.format("k%09d", random.nextInt(1_000_000_000)).getBytes(StandardCharsets.US_ASCII);
    }

    private byte[] nextValue(long offset) {
        return ("{\"order_id\":\"" + String.format("%016x%016x", random.nextLong(), random.nextLong())
            + "\",\"customer\":" + (100_000 + random.nextInt(900_000))
            + ",\"amount\":" + (100 + random.nextInt(900)) + '.' + (10 + random.nextInt(90))
            + ",\"status\":\"" + STATUSES[random.nextInt(STATUSES.length)]
            + "\",\"city\":\"" + CITIES[random.nextInt(CITIES.length)]
            + "\",\"token\":\"" + String.format("%016x%08x", random.nextLong(), random.nextInt())
            + "\",\"sequence\":" + (10_000_000 + offset) + "}")
            .getBytes(StandardCharsets.US_ASCII);
    }

    /** Headers exist since v2; every third record carries one. */
    private Header[] nextHeaders(long offset) {
        if (magic < RecordBatch.MAGIC_VALUE_V2 || offset % 3 != 0) {
            return NO_HEADERS;
        }
        return new Header[] {new RecordHeader("trace", String.format("%08x", random.nextInt()).getBytes(StandardCharsets.US_ASCII))};
    }
}
