import org.teavm.interop.Export;

/** The shortest program: one line. */
public final class Hello {
    private Hello() {}

    /** What an instance of a snapshot calls. */
    @Export(name = "run")
    public static void run() {
        main(new String[0]);
    }

    public static void main(String[] args) {
        System.out.println("Hello, World!");
    }
}
