import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * DumpLogSegments again and again in one JVM. Each line on standard input is one command, its arguments with tabs between them;
 * the answer is three byte strings, each after its length: standard output, standard error, and what it died of, if it did.
 */
public class DumpLoop {
    public static void main(String[] arguments) throws Exception {
        DataOutputStream answers = new DataOutputStream(System.out);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream complaints = new ByteArrayOutputStream();
            String death = "";
            System.setOut(new PrintStream(output, false, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complaints, false, StandardCharsets.UTF_8));
            try {
                DumpLogSegments.main(line.split("\t"));
            } catch (Throwable thrown) {
                death = thrown.toString();
            }
            System.out.flush();
            System.err.flush();
            for (byte[] part : new byte[][] {output.toByteArray(), complaints.toByteArray(), death.getBytes(StandardCharsets.UTF_8)}) {
                answers.writeInt(part.length);
                answers.write(part);
            }
            answers.flush();
        }
    }
}
