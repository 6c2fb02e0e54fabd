import java.util.ArrayList;
import java.util.List;

/**
 * Runs guests on threads of a Java virtual machine, while other threads cause the same signals for
 * it: SIGSEGV for null pointers, stack overflows and safepoints.
 *
 * <pre>java Hosts LIBRARY [fault]</pre>
 */
public final class Hosts {
    static final int THREADS = 3;
    static final int ROUNDS = Integer.parseInt(System.getenv("PIRN_ROUNDS"));
    static final int LATE_THREADS = ROUNDS + 2;

    static volatile boolean done;
    static volatile Object kept;
    static volatile Throwable failed;
    static Object[] nothing = new Object[1];

    static native int count();

    static native void open();

    static native int run(int what);

    static native void fault();

    /** The host function of a guest calls this, while the guest's frames are on the stack. */
    static int back(int n) {
        nullPointer();
        overflow();
        kept = new byte[1 << 12];
        return 3 * n;
    }

    static void nullPointer() {
        for (int i = 0; i < 100; i++) {
            try {
                kept = nothing[0].getClass();
            } catch (NullPointerException expected) {
                continue;
            }
            throw new AssertionError("a null pointer was read through");
        }
    }

    static int deep(int n) {
        return deep(n + 1) + 1;
    }

    static void overflow() {
        try {
            deep(0);
        } catch (StackOverflowError expected) {
            return;
        }
        throw new AssertionError("a stack has no end");
    }

    static void guests(int rounds) {
        for (int round = 0; round < rounds; round++) {
            for (int what = 0; what < count(); what++) {
                if (run(what) != 0) {
                    throw new AssertionError("guest " + what);
                }
                nullPointer();
            }
            overflow();
        }
    }

    static Thread start(Runnable body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Throwable error) {
                error.printStackTrace();
                failed = error;
            }
        });
        thread.start();
        return thread;
    }

    static Thread until(Runnable body) {
        return start(() -> {
            while (!done) {
                body.run();
            }
        });
    }

    static long spin() {
        long sum = 0;
        for (int i = 0; i < 1 << 20 && !done; i++) {
            sum += i ^ sum;
        }
        return sum;
    }

    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        nullPointer();
        open();
        if (args.length > 1) {
            guests(1);
            fault();
        }
        List<Thread> others = List.of(
            until(() -> {
                nullPointer();
                overflow();
            }),
            until(() -> {
                kept = new Object[1 << 10];
                kept = spin();
                System.gc();
            }));
        List<Thread> guests = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            guests.add(start(() -> guests(ROUNDS)));
        }
        for (Thread thread : guests) {
            thread.join();
        }
        // On threads that end soon after their guests.
        for (int i = 0; i < LATE_THREADS; i++) {
            start(() -> guests(1)).join();
        }
        done = true;
        for (Thread thread : others) {
            thread.join();
        }
        if (failed != null) {
            System.exit(1);
        }
        System.out.println("all guests did as they must");
    }
}
