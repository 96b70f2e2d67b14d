// tests/interpose/guests/Null.java: the Java run-time takes SIGSEGV for null pointers and safepoints.
public class Null {
    static Object nothing;

    public static void main(String[] arguments) {
        int caught = 0;
        for (int i = 0; i < 100000; i++) {
            try {
                nothing.hashCode();
            } catch (NullPointerException error) {
                caught++;
            }
        }
        byte[][] kept = new byte[20][];
        for (int i = 0; i < 500; i++)
            kept[i % 20] = new byte[1 << 20];
        System.out.println("caught " + caught);
    }
}
