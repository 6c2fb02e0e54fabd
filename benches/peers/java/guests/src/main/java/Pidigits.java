import java.math.BigInteger;
import org.teavm.interop.Export;

/**
 * The digits of pi of the benchmarks game, by the step-by-step spigot algorithm of Gibbons, ten in
 * a line.
 */
public final class Pidigits {
    private static final int LINE_DIGITS = 10;

    private BigInteger numerator = BigInteger.ONE;
    private BigInteger accumulator = BigInteger.ZERO;
    private BigInteger denominator = BigInteger.ONE;

    private Pidigits() {}

    /** What an instance of a snapshot calls. */
    @Export(name = "run")
    public static void run() {
        main(new String[] {"100"});
    }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 100;
        Pidigits spigot = new Pidigits();
        StringBuilder line = new StringBuilder();
        for (int i = 1; i <= n; i++) {
            line.append(spigot.next());
            if (i % LINE_DIGITS == 0 || i == n) {
                while (line.length() < LINE_DIGITS) {
                    line.append(' ');
                }
                System.out.println(line.append("\t:").append(i));
                line.setLength(0);
            }
        }
    }

    private int terms;

    private int next() {
        for (;;) {
            consume();
            if (numerator.compareTo(accumulator) > 0) {
                continue;
            }
            int digit = extract(3);
            if (digit == extract(4)) {
                eliminate(digit);
                return digit;
            }
        }
    }

    private void consume() {
        terms++;
        BigInteger odd = BigInteger.valueOf(2 * terms + 1);
        accumulator = accumulator.add(numerator.shiftLeft(1)).multiply(odd);
        denominator = denominator.multiply(odd);
        numerator = numerator.multiply(BigInteger.valueOf(terms));
    }

    private int extract(int times) {
        BigInteger sum = numerator.multiply(BigInteger.valueOf(times)).add(accumulator);
        return sum.divide(denominator).intValue();
    }

    private void eliminate(int digit) {
        BigInteger taken = denominator.multiply(BigInteger.valueOf(digit));
        accumulator = accumulator.subtract(taken).multiply(BigInteger.TEN);
        numerator = numerator.multiply(BigInteger.TEN);
    }
}
