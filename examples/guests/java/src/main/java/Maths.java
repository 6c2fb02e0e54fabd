/**
 * Prints a hash of the results of each function that TeaVM asks its host for, over 20,000
 * arguments. Results are rounded to float, because Java allows an error in the last bits of a
 * double. So a Java virtual machine prints the same lines.
 */
public final class Maths {
    private interface Function {
        double of(double x, double y);
    }

    public static void main(String[] args) {
        print("sin", (x, y) -> StrictMath.sin(x));
        print("cos", (x, y) -> StrictMath.cos(x));
        print("tan", (x, y) -> StrictMath.tan(x));
        print("asin", (x, y) -> StrictMath.asin(x));
        print("acos", (x, y) -> StrictMath.acos(x));
        print("atan", (x, y) -> StrictMath.atan(x));
        print("exp", (x, y) -> StrictMath.exp(x));
        print("log", (x, y) -> StrictMath.log(x));
        print("sqrt", (x, y) -> StrictMath.sqrt(x));
        print("floor", (x, y) -> StrictMath.floor(x));
        print("ceil", (x, y) -> StrictMath.ceil(x));
        print("atan2", StrictMath::atan2);
        long start = System.nanoTime();
        long now = start;
        while (now == start) {
            now = System.nanoTime();
        }
        System.out.println("time " + (now > start));
    }

    private static void print(String name, Function function) {
        double[] special = {0.0, -0.0, 1.0, -1.0, Double.MAX_VALUE, Double.MIN_VALUE,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.NaN, 0.5, Math.PI, 1e22};
        long hash = 0xcbf29ce484222325L;
        for (double x : special) {
            for (double y : special) {
                hash = add(hash, function.of(x, y));
            }
        }
        // Numerical Recipes' linear congruential generator.
        long state = 1;
        for (int n = 0; n < 20_000; n++) {
            state = state * 6364136223846793005L + 1;
            double x = (state >> 11) * 0x1p-52;
            // Small arguments, those of some turns of a circle, and any number.
            if (n % 3 == 1) {
                x *= 700;
            } else if (n % 3 == 2) {
                x = Double.longBitsToDouble(state);
            }
            hash = add(hash, function.of(x, n - 10_000));
        }
        System.out.println(name + " " + Long.toHexString(hash));
    }

    private static long add(long hash, double x) {
        // All NaN are one.
        int bits = x != x ? 0x7fc00000 : Float.floatToRawIntBits((float) x);
        return (hash ^ bits) * 0x100000001b3L;
    }
}
