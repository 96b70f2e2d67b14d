/* Allocates on four threads until the collector has run, catches a null pointer (the JVM's own use of
 * SIGSEGV), overflows a stack, and prints what it was given. */
import java.util.ArrayList;
import java.util.List;

public class Threads {
    static long deep(long depth) {
        return depth + deep(depth + 1);
    }

    public static void main(String[] args) throws Exception {
        long[] sums = new long[4];
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int self = t;
            threads.add(new Thread(() -> {
                List<byte[]> kept = new ArrayList<>();
                for (int i = 0; i < 20000; i++) {
                    byte[] block = new byte[1000 + i % 777];
                    block[i % 1000] = 1;
                    if (i % 100 == 0)
                        kept.add(block);
                    sums[self] += block[i % 1000];
                }
            }));
        }
        for (Thread thread : threads)
            thread.start();
        for (Thread thread : threads)
            thread.join();
        String caught = "";
        try {
            int[] nothing = args.length > 99 ? new int[1] : null;
            nothing[0] = 1;
        } catch (NullPointerException e) {
            caught += "null";
        }
        try {
            deep(0);
        } catch (StackOverflowError e) {
            caught += " deep";
        }
        System.out.println(sums[0] + sums[1] + sums[2] + sums[3] + " " + caught + " " + String.join(",", args));
        System.exit(args.length);
    }
}
