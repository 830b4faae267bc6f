import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * A metadata log replayed by Kafka's own MetadataDelta, batch by batch as a broker does. A line for each batch: its last offset, its
 * epoch, and the records that Kafka writes of its MetadataImage then. Metadata transactions count once they have ended.
 */
public class ClusterImages {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        MetadataImage image = MetadataImage.EMPTY;
        List<ApiMessageAndVersion> transaction = null;
        try (FileRecords log = FileRecords.open(new File(arguments[0]), false)) {
            for (RecordBatch batch : log.batches()) {
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).setSupportedConfigChecker(SupportedConfigChecker.TRUE).build();
                for (Record record : batch) {
                    if (batch.isControlBatch()) continue;
                    ByteBuffer value = record.value();
                    ApiMessageAndVersion message = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(value), value.remaining());
                    switch (MetadataRecordType.fromId(message.message().apiKey())) {
                        case BEGIN_TRANSACTION_RECORD -> transaction = new ArrayList<>();
                        case ABORT_TRANSACTION_RECORD -> transaction = null;
                        case END_TRANSACTION_RECORD -> {
                            for (ApiMessageAndVersion each : transaction) delta.replay(each.message());
                            transaction = null;
                        }
                        default -> {
                            if (transaction != null) transaction.add(message);
                            else delta.replay(message.message());
                        }
                    }
                }
                image = delta.apply(new MetadataProvenance(batch.lastOffset(), batch.partitionLeaderEpoch(), 0, true));
                out.println(line(image, batch));
            }
        }
        out.flush();
    }

    private static String line(MetadataImage image, RecordBatch batch) {
        StringBuilder text = new StringBuilder();
        text.append("{\"offset\":").append(batch.lastOffset()).append(",\"epoch\":").append(batch.partitionLeaderEpoch());
        text.append(",\"records\":[");
        if (image.features().metadataVersion().isPresent()) {
            RecordListWriter writer = new RecordListWriter();
            image.write(writer, new ImageWriterOptions.Builder(image).build());
            writer.close(true);
            String separator = "";
            for (ApiMessageAndVersion each : writer.records()) {
                MetadataRecordType type = MetadataRecordType.fromId(each.message().apiKey());
                text.append(separator).append("{\"type\":\"").append(type.name()).append("\",\"data\":");
                text.append(MetadataJsonConverters.writeJson(each.message(), each.version())).append("}");
                separator = ",";
            }
        }
        return text.append("]}").toString();
    }
}
