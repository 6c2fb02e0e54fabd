import org.teavm.interop.Export;

/**
 * The spectral norm of the benchmarks game: of the infinite matrix a(i, j) = 1 / ((i + j) (i + j +
 * 1) / 2 + i + 1), of which the first n rows and columns are used, by the power method.
 */
public final class Spectralnorm {
    private static final int ROUNDS = 10;

    private Spectralnorm() {}

    /** What an instance of a snapshot calls. */
    @Export(name = "run")
    public static void run() {
        main(new String[] {"100"});
    }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 100;
        double[] u = new double[n];
        double[] v = new double[n];
        double[] between = new double[n];
        for (int i = 0; i < n; i++) {
            u[i] = 1;
        }
        for (int i = 0; i < ROUNDS; i++) {
            multiplyBoth(u, between, v);
            multiplyBoth(v, between, u);
        }
        double uv = 0;
        double vv = 0;
        for (int i = 0; i < n; i++) {
            uv += u[i] * v[i];
            vv += v[i] * v[i];
        }
        System.out.println(Decimal.of(Math.sqrt(uv / vv)));
    }

    private static double element(int i, int j) {
        return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1);
    }

    /** By the matrix, then by its transpose. */
    private static void multiplyBoth(double[] vector, double[] between, double[] result) {
        for (int i = 0; i < vector.length; i++) {
            double sum = 0;
            for (int j = 0; j < vector.length; j++) {
                sum += element(i, j) * vector[j];
            }
            between[i] = sum;
        }
        for (int i = 0; i < vector.length; i++) {
            double sum = 0;
            for (int j = 0; j < vector.length; j++) {
                sum += element(j, i) * between[j];
            }
            result[i] = sum;
        }
    }
}
