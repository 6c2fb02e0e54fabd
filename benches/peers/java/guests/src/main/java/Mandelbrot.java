import org.teavm.interop.Export;

/**
 * The Mandelbrot set of the benchmarks game: a portable bitmap of n times n points in [-1.5-i,
 * 0.5+i], with at most 50 iterations each.
 */
public final class Mandelbrot {
    private static final int ITERATIONS_MAX = 50;

    private Mandelbrot() {}

    /** What an instance of a snapshot calls. */
    @Export(name = "run")
    public static void run() {
        main(new String[] {"200"});
    }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 200;
        int rowBytes = (n + 7) / 8;
        byte[] bitmap = new byte[rowBytes * n];
        for (int y = 0; y < n; y++) {
            double ci = 2.0 * y / n - 1.0;
            for (int x = 0; x < n; x++) {
                if (isMember(2.0 * x / n - 1.5, ci)) {
                    bitmap[y * rowBytes + x / 8] |= (byte) (0x80 >> x % 8);
                }
            }
        }
        System.out.print("P4\n" + n + " " + n + "\n");
        System.out.write(bitmap, 0, bitmap.length);
        System.out.flush();
    }

    private static boolean isMember(double cr, double ci) {
        double zr = 0;
        double zi = 0;
        double rr = 0;
        double ii = 0;
        for (int i = 0; i < ITERATIONS_MAX && rr + ii <= 4.0; i++) {
            zi = 2.0 * zr * zi + ci;
            zr = rr - ii + cr;
            rr = zr * zr;
            ii = zi * zi;
        }
        return rr + ii <= 4.0;
    }
}
