import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.teavm.interop.Address;
import org.teavm.interop.Export;
import org.teavm.interop.Import;

/**
 * Works before its first request: main makes a table of prices. A snapshot is taken after main, so
 * _start is the initialisation. Then handle answers a request, whose body names an item.
 */
public final class Main {
    private static final Map<String, Integer> PRICE_CENTS = new HashMap<>();
    private static int requests;

    private Main() {}

    public static void main(String[] args) {
        for (int i = 0; i < 1000; i++) {
            PRICE_CENTS.put("item-" + i, 100 + i * i % 9973);
        }
    }

    @Export(name = "handle")
    public static int handle() {
        requests++;
        String item = body();
        Integer cents = PRICE_CENTS.get(item);
        System.out.print("Status: " + (cents == null ? 404 : 200) + "\n");
        System.out.print("Content-Type: application/json\n\n");
        System.out.print("{\"item\":\"" + item + "\",\"cents\":" + cents);
        System.out.print(",\"requests\":" + requests + "}\n");
        System.out.flush();
        return 0;
    }

    /** The shortest answer. */
    @Export(name = "hello")
    public static void hello() {
        System.out.println("hello from a slot");
    }

    /** The start of standard input: the body. TeaVM's System.in does not work in WASI. */
    private static String body() {
        byte[] bytes = new byte[1024];
        int[] read = new int[1];
        int[] vector = new int[2];
        // No allocation from here on, so that nothing moves.
        vector[0] = Address.ofData(bytes).toInt();
        vector[1] = bytes.length;
        int error = fdRead(0, Address.ofData(vector), 1, Address.ofData(read));
        return error != 0 ? "" : new String(bytes, 0, read[0], StandardCharsets.UTF_8);
    }

    @Import(module = "wasi_snapshot_preview1", name = "fd_read")
    private static native int fdRead(int fd, Address vectors, int count, Address read);
}
