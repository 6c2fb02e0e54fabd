import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.teavm.interop.Export;

/**
 * What a small service does: reads n orders from a text, groups them by customer in a hash map,
 * sorts the customers, and prints the best ones. It allocates objects, strings and lists.
 */
public final class Simple {
    private static final int CUSTOMERS = 97;
    private static final int SHOWN = 5;

    private Simple() {}

    /** What an instance of a snapshot calls. */
    @Export(name = "run")
    public static void run() {
        main(new String[] {"2000"});
    }

    private static final class Order {
        final String item;
        final int count;
        final long cents;

        Order(String item, int count, long cents) {
            this.item = item;
            this.count = count;
            this.cents = cents;
        }

        long total() {
            return count * cents;
        }
    }

    private static final class Customer {
        final String name;
        final List<Order> orders = new ArrayList<>();

        Customer(String name) {
            this.name = name;
        }

        long total() {
            long total = 0;
            for (Order order : orders) {
                total += order.total();
            }
            return total;
        }
    }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 2000;
        Map<String, Customer> byName = new HashMap<>();
        int start = 0;
        String text = text(n);
        for (int end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
            String[] fields = text.substring(start, end).split(",");
            Customer customer = byName.get(fields[0]);
            if (customer == null) {
                customer = new Customer(fields[0]);
                byName.put(fields[0], customer);
            }
            customer.orders.add(new Order(
                fields[1], Integer.parseInt(fields[2]), Long.parseLong(fields[3])));
            start = end + 1;
        }
        List<Customer> customers = new ArrayList<>(byName.values());
        customers.sort((a, b) -> {
            int byTotal = Long.compare(b.total(), a.total());
            return byTotal != 0 ? byTotal : a.name.compareTo(b.name);
        });
        StringBuilder answer = new StringBuilder();
        for (Customer customer : customers.subList(0, SHOWN)) {
            answer.append(customer.name).append(": ").append(customer.orders.size());
            answer.append(" orders, ").append(customer.total()).append(" cents, first ");
            answer.append(customer.orders.get(0).item).append('\n');
        }
        System.out.print(answer);
        System.out.flush();
    }

    /** n lines: customer, item, count, cents. */
    private static String text(int n) {
        StringBuilder text = new StringBuilder();
        int state = 42;
        for (int i = 0; i < n; i++) {
            state = state * 1103515245 + 12345;
            int random = state >>> 8;
            text.append("customer-").append(random % CUSTOMERS);
            text.append(",item-").append(random / CUSTOMERS % 1000);
            text.append(',').append(1 + random % 9);
            text.append(',').append(100 + random % 9973).append('\n');
        }
        return text.toString();
    }
}
