package kafkalog.interop;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's own record classes behind a pipe: each request is an opcode and its fields, each reply a flag (0: refused, with the
 * exception's class and message; 1: done) and the answer. Byte strings are an int32 length (-1: null) and the bytes.
 *
 *   W  write one batch, or one set of messages     -> its bytes
 *   R  read entries from bytes, as a consumer does -> records
 *   F  read the entries of a file                  -> records
 *   B  describe the batches of a file              -> JSON lines
 */
public final class Peer {
    private final DataInputStream in;
    private final BufferSupplier buffers = BufferSupplier.create();

    private Peer(DataInputStream in) {
        this.in = in;
    }

    public static void main(String[] arguments) throws IOException {
        var in = new DataInputStream(new BufferedInputStream(System.in));
        var out = new DataOutputStream(new BufferedOutputStream(System.out));
        var peer = new Peer(in);
        for (int opcode = in.read(); opcode >= 0; opcode = in.read()) {
            var answer = new ByteArrayOutputStream();
            try {
                peer.answer(opcode, new DataOutputStream(answer));
                out.write(1);
                answer.writeTo(out);
            } catch (Throwable error) {
                out.write(0);
                writeBytes(out, error.getClass().getSimpleName().getBytes(StandardCharsets.UTF_8));
                writeBytes(out, String.valueOf(error.getMessage()).getBytes(StandardCharsets.UTF_8));
            }
            out.flush();
        }
    }

    private void answer(int opcode, DataOutputStream answer) throws IOException {
        switch (opcode) {
            case 'W':
                writeBytes(answer, writeBatch());
                break;
            case 'R':
                readRecords(MemoryRecords.readableRecords(ByteBuffer.wrap(readBytes())), answer);
                break;
            case 'F':
                var file = new File(new String(readBytes(), StandardCharsets.UTF_8));
                try (var records = FileRecords.open(file, false)) {
                    readRecords(records, answer);
                }
                break;
            case 'B':
                var described = new File(new String(readBytes(), StandardCharsets.UTF_8));
                try (var records = FileRecords.open(described, false)) {
                    writeBytes(answer, describeBatches(records).getBytes(StandardCharsets.UTF_8));
                }
                break;
            default:
                throw new IllegalArgumentException("unknown opcode " + opcode);
        }
    }

    private record Given(long offset, long timestamp, byte[] key, byte[] value, Header[] headers) {
    }

    /** Every field is read before any is used, so that a refusal leaves the pipe at the next request. */
    private byte[] writeBatch() throws IOException {
        byte magic = in.readByte();
        var codec = CompressionType.forId(in.readByte());
        var timestampType = TimestampType.values()[in.readByte() + 1];
        long baseOffset = in.readLong();
        long logAppendTime = in.readLong();
        long producerId = in.readLong();
        short producerEpoch = in.readShort();
        int baseSequence = in.readInt();
        boolean isTransactional = in.readBoolean();
        boolean isControl = in.readBoolean();
        int leaderEpoch = in.readInt();
        long deleteHorizon = in.readLong();
        var records = new Given[in.readInt()];
        for (int i = 0; i < records.length; i++)
            records[i] = new Given(in.readLong(), in.readLong(), readBytes(), readBytes(), readHeaders());
        var stream = new ByteBufferOutputStream(1024);
        var builder = new MemoryRecordsBuilder(stream, magic, Compression.of(codec).build(), timestampType, baseOffset, logAppendTime,
            producerId, producerEpoch, baseSequence, isTransactional, isControl, leaderEpoch, Integer.MAX_VALUE, deleteHorizon);
        for (var each : records) {
            if (isControl)
                builder.appendControlRecordWithOffset(each.offset, new SimpleRecord(each.timestamp, each.key, each.value));
            else
                builder.appendWithOffset(each.offset, each.timestamp, each.key, each.value, each.headers);
        }
        var buffer = builder.build().buffer();
        var bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private Header[] readHeaders() throws IOException {
        var headers = new Header[in.readInt()];
        for (int i = 0; i < headers.length; i++)
            headers[i] = new RecordHeader(ByteBuffer.wrap(readBytes()), wrap(readBytes()));
        return headers;
    }

    private static ByteBuffer wrap(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private void readRecords(Records records, DataOutputStream answer) throws IOException {
        int count = 0;
        var found = new ByteArrayOutputStream();
        var out = new DataOutputStream(found);
        for (var batch : records.batches()) {
            batch.ensureValid();
            try (var iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    var record = iterator.next();
                    record.ensureValid();
                    out.writeLong(record.offset());
                    out.writeLong(record.timestamp());
                    out.writeByte(batch.timestampType().id);
                    out.writeInt(record.sequence());
                    writeBuffer(out, record.key());
                    writeBuffer(out, record.value());
                    var headers = record.headers();
                    out.writeInt(headers.length);
                    for (var header : headers) {
                        writeBytes(out, header.key().getBytes(StandardCharsets.UTF_8));
                        writeBytes(out, header.value());
                    }
                    count++;
                }
            }
        }
        answer.writeInt(count);
        found.writeTo(answer);
    }

    /** A line for each batch; where the iteration ends with an error, a last one with the position and that error. */
    private static String describeBatches(FileRecords records) {
        var lines = new StringBuilder();
        int position = 0;
        try {
            for (var batch : records.batches()) {
                lines.append(describeBatch(batch)).append('\n');
                position = batch.position() + batch.sizeInBytes();
            }
        } catch (RuntimeException error) {
            lines.append(String.format("{\"position\":%d,\"iterationError\":%s}\n", position, quoted(error.toString())));
        }
        return lines.toString();
    }

    private static String describeBatch(FileLogInputStream.FileChannelRecordBatch batch) {
        int count = 0;
        String problem = "";
        try {
            for (var record : batch)
                count += record == null ? 0 : 1;
        } catch (RuntimeException error) {
            problem = ",\"error\":" + quoted(error.toString());
        }
        var horizon = batch.deleteHorizonMs();
        Object[][] fields = {
            {"position", batch.position()}, {"sizeInBytes", batch.sizeInBytes()}, {"magic", batch.magic()},
            {"baseOffset", batch.baseOffset()}, {"lastOffset", batch.lastOffset()}, {"nextOffset", batch.nextOffset()},
            {"countOrNull", batch.countOrNull()}, {"checksum", batch.checksum()},
            {"compression", quoted(batch.compressionType().name)}, {"timestampType", quoted(batch.timestampType().toString())},
            {"maxTimestamp", batch.maxTimestamp()}, {"isTransactional", batch.isTransactional()},
            {"isControl", batch.isControlBatch()}, {"producerId", batch.producerId()}, {"producerEpoch", batch.producerEpoch()},
            {"baseSequence", batch.baseSequence()}, {"lastSequence", batch.lastSequence()},
            {"partitionLeaderEpoch", batch.partitionLeaderEpoch()},
            {"deleteHorizonMs", horizon.isPresent() ? horizon.getAsLong() : "null"},
            {"isValid", batch.isValid()}, {"records", count},
        };
        var line = new StringBuilder("{");
        for (var field : fields)
            line.append(line.length() > 1 ? "," : "").append('"').append(field[0]).append("\":").append(field[1]);
        return line.append(problem).append('}').toString();
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "'").replace("\n", " ") + '"';
    }

    private byte[] readBytes() throws IOException {
        int size = in.readInt();
        return size < 0 ? null : in.readNBytes(size);
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null)
            out.write(bytes);
    }

    private static void writeBuffer(DataOutputStream out, ByteBuffer buffer) throws IOException {
        byte[] bytes = null;
        if (buffer != null) {
            bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
        }
        writeBytes(out, bytes);
    }
}
