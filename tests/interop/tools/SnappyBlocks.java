import java.util.Base64;
import java.util.Scanner;
import org.xerial.snappy.Snappy;

/** What snappy-java's rawCompress makes of each line of standard input; both in base64. */
public class SnappyBlocks {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            byte[] source = Base64.getDecoder().decode(lines.nextLine());
            byte[] target = new byte[Snappy.maxCompressedLength(source.length)];
            int size = Snappy.rawCompress(source, 0, source.length, target, 0);
            System.out.println(Base64.getEncoder().encodeToString(java.util.Arrays.copyOf(target, size)));
        }
    }
}
