import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Kafka's own validation of what a leader is to store, without a broker. Standard input has one request after the other: the rules,
 * the first free offset, and the set. For each, standard output has a flag: 1 with the set as it would be stored, the next offset, the
 * largest timestamp and whether sizes may have changed, or 0 with the exception, its cause, and the numbers of the records refused.
 */
public class Validation {

    private static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        @Override public void recordInvalidMagic() { }
        @Override public void recordInvalidOffset() { }
        @Override public void recordInvalidSequence() { }
        @Override public void recordInvalidChecksums() { }
        @Override public void recordNoKeyCompactedTopic() { }
    };

    private record Clock(long now) implements Time {
        @Override public long milliseconds() { return now; }
        @Override public long hiResClockMs() { return now; }
        @Override public long nanoseconds() { return 0; }
        @Override public void sleep(long milliseconds) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { throw new UnsupportedOperationException(); }
        @Override public <T> T waitForFuture(Future<T> future, long deadline) { throw new UnsupportedOperationException(); }
    }

    public static void main(String[] arguments) throws IOException {
        var in = new DataInputStream(new BufferedInputStream(System.in));
        var out = new DataOutputStream(new BufferedOutputStream(System.out));
        for (int count = in.readInt(); count > 0; count--)
            answer(in, out);
        out.flush();
    }

    private static void answer(DataInputStream in, DataOutputStream out) throws IOException {
        var source = CompressionType.forId(in.readByte());
        var target = Compression.of(CompressionType.forId(in.readByte())).build();
        boolean compact = in.readBoolean();
        byte magic = in.readByte();
        var timestampType = in.readBoolean() ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        long before = in.readLong();
        long after = in.readLong();
        int leaderEpoch = in.readInt();
        var origin = in.readBoolean() ? AppendOrigin.CLIENT : AppendOrigin.COORDINATOR;
        var clock = new Clock(in.readLong());
        var offset = PrimitiveRef.ofLong(in.readLong());
        var records = MemoryRecords.readableRecords(ByteBuffer.wrap(in.readNBytes(in.readInt())));
        try {
            var result = new LogValidator(records, new TopicPartition("t", 0), clock, source, target, compact, magic, timestampType, before,
                after, leaderEpoch, origin).validateMessagesAndAssignOffsets(offset, NO_METRICS, BufferSupplier.NO_CACHING);
            var validated = result.validatedRecords().buffer().duplicate();
            var bytes = new byte[validated.remaining()];
            validated.get(bytes);
            out.writeByte(1);
            writeBytes(out, bytes);
            out.writeLong(offset.value);
            out.writeLong(result.maxTimestampMs());
            out.writeBoolean(result.messageSizeMaybeChanged());
        } catch (Throwable error) {
            out.writeByte(0);
            writeBytes(out, error.getClass().getSimpleName().getBytes());
            var refused = error instanceof RecordValidationException ? (RecordValidationException) error : null;
            writeBytes(out, refused == null ? new byte[0] : refused.invalidException().getClass().getSimpleName().getBytes());
            out.writeInt(refused == null ? 0 : refused.recordErrors().size());
            if (refused != null)
                for (var each : refused.recordErrors())
                    out.writeInt(each.batchIndex);
        }
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
