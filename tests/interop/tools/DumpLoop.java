import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

/**
 * DumpLogSegments again and again in one JVM; the argument is the name of its class. Each line on standard input is one command,
 * its arguments with tabs between them; the answer is three byte strings, each after its length: standard output, standard error,
 * and what it died of, if it did.
 */
public class DumpLoop {
    public static void main(String[] arguments) throws Exception {
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        DataOutputStream answers = new DataOutputStream(System.out);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // Set once: Scala's println, which older tools print with, keeps to the stream that it found first.
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream complaints = new ByteArrayOutputStream();
        System.setOut(new PrintStream(output, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complaints, false, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String death = "";
            try {
                tool.invoke(null, (Object) line.split("\t"));
            } catch (InvocationTargetException thrown) {
                death = thrown.getCause().toString();
            }
            System.out.flush();
            System.err.flush();
            for (byte[] part : new byte[][] {output.toByteArray(), complaints.toByteArray(), death.getBytes(StandardCharsets.UTF_8)}) {
                answers.writeInt(part.length);
                answers.write(part);
            }
            answers.flush();
            output.reset();
            complaints.reset();
        }
    }
}
