/** A number with nine decimal places. TeaVM's formatter differs from Java's in the last digits. */
final class Decimal {
    private static final long PLACES = 1_000_000_000;

    private Decimal() {}

    /** For numbers of a magnitude below 9e9. */
    static String of(double number) {
        double magnitude = number < 0 ? -number : number;
        long units = (long) (magnitude * PLACES + 0.5);
        String fraction = Long.toString(units % PLACES + PLACES).substring(1);
        return (number < 0 ? "-" : "") + units / PLACES + "." + fraction;
    }
}
