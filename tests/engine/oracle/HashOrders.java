import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Scanner;

/**
 * The order in which java.util.HashMap gives its keys. Each three lines of standard input are keys, keys to remove, and keys to add
 * again, with commas between them; the answer is two lines: the order after put, remove and put, and after computeIfAbsent.
 */
public class HashOrders {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            List<Long> keys = keys(lines.nextLine());
            HashMap<Long, Long> put = new HashMap<>();
            HashMap<Long, Long> computed = new HashMap<>();
            for (Long key : keys) {
                put.put(key, key);
                computed.computeIfAbsent(key, each -> each);
            }
            put.keySet().removeAll(keys(lines.nextLine()));
            for (Long key : keys(lines.nextLine())) {
                put.put(key, key);
            }
            System.out.println(shown(put));
            System.out.println(shown(computed));
        }
    }

    private static List<Long> keys(String line) {
        List<Long> found = new ArrayList<>();
        for (String each : line.split(",")) {
            if (!each.isEmpty()) {
                found.add(Long.valueOf(each));
            }
        }
        return found;
    }

    private static String shown(HashMap<Long, Long> map) {
        return map.keySet().toString().replaceAll("[\\[\\] ]", "");
    }
}
