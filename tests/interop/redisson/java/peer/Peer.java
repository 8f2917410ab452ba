/* SPDX-License-Identifier: Apache-2.0 */
/* The Java half of the interop tests: Redisson, driven line by line.
 *
 * A line on standard input is a request, a line on standard output an answer:
 *     ID THREAD KIND NAME VERB [ARGUMENT...]        ID ANSWER
 * THREAD names a Java thread, made when first named, which does its requests in order; Redisson's
 * locks belong to threads, so a test plays several owners and lets some wait while others go on.
 * Answers come in the order in which the requests end. An exception is the answer
 * `threw CLASS: MESSAGE`. The process ends with its input.
 *
 * Locks.java and Counters.java have the kinds and verbs. */
package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Peer {
    private final Locks locks;
    private final Counters counters;
    private final PrintStream out;
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Peer(RedissonClient redisson, PrintStream out) {
        this.locks = new Locks(redisson);
        this.counters = new Counters(redisson);
        this.out = out;
    }

    /* ADDRESS WATCHDOG_MS: the server as redis://host:port, and the lease of locks without one. */
    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.setThreads(4);
        config.setNettyThreads(4);
        config.useSingleServer()
            .setAddress(args[0])
            .setConnectionMinimumIdleSize(2)
            .setConnectionPoolSize(32);
        Peer peer = new Peer(Redisson.create(config), out);
        out.println("ready " + Redisson.class.getPackage().getImplementationVersion());
        peer.serve();
        Runtime.getRuntime().halt(0); /* no goodbye: what is held stays held until its lease ends */
    }

    private void serve() throws IOException {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            thread(words[1]).execute(() -> answer(words));
        }
    }

    private ExecutorService thread(String name) {
        return threads.computeIfAbsent(name, key -> Executors.newSingleThreadExecutor(body -> {
            Thread thread = new Thread(body, key);
            thread.setDaemon(true);
            return thread;
        }));
    }

    private void answer(String[] words) {
        String result;
        try {
            result = run(words[2], words[3], words[4],
                Arrays.asList(words).subList(5, words.length));
        } catch (Exception | AssertionError e) {
            String message = String.valueOf(e.getMessage()).replace('\n', ' ');
            result = "threw " + e.getClass().getSimpleName() + ": " + message;
        }
        out.println(words[0] + " " + result);
    }

    private String run(String kind, String name, String verb, List<String> arguments)
        throws Exception {
        switch (kind) {
            case "semaphore":
                return counters.semaphore(name, verb, arguments);
            case "permits":
                return counters.permits(name, verb, arguments);
            case "latch":
                return counters.latch(name, verb, arguments);
            default:
                return locks.run(kind, name, verb, arguments);
        }
    }

    static IllegalArgumentException unknown(String what) {
        return new IllegalArgumentException("the peer does not know " + what);
    }
}
