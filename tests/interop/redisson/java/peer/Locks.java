/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer does with locks: everything that is an RLock, and the fenced lock's tokens.
 *
 * Kinds: lock fair read write spin fenced multi (names with commas between). Verbs, times in ms:
 *     lock [LEASE]  tryLock [WAIT LEASE]  unlock  forceUnlock  isLocked  isHeld  holdCount  ttl
 *     lockToken  tryToken WAIT LEASE  token                       (fenced)
 *     hammer FILE ROUNDS  peek FILE ROUNDS                        (see below)
 * A LEASE of -1 is Redisson's watchdog. One object per kind and name, as in a Java program. */
package peer;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

final class Locks {
    private static final int DIGITS = 20; /* of the number in the file, padded with zeros */

    private final RedissonClient redisson;
    private final Map<String, RLock> opened = new ConcurrentHashMap<>();

    Locks(RedissonClient redisson) {
        this.redisson = redisson;
    }

    private RLock open(String kind, String name) {
        switch (kind) {
            case "lock":
                return redisson.getLock(name);
            case "fair":
                return redisson.getFairLock(name);
            case "read":
                return redisson.getReadWriteLock(name).readLock();
            case "write":
                return redisson.getReadWriteLock(name).writeLock();
            case "spin":
                return redisson.getSpinLock(name);
            case "fenced":
                return redisson.getFencedLock(name);
            case "multi":
                return redisson.getMultiLock(
                    Stream.of(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            default:
                throw Peer.unknown(kind);
        }
    }

    String run(String kind, String name, String verb, List<String> arguments) throws Exception {
        RLock lock = opened.computeIfAbsent(kind + " " + name, key -> open(kind, name));
        switch (verb) {
            case "lock":
                lock.lock(arguments.isEmpty() ? -1 : number(arguments, 0), TimeUnit.MILLISECONDS);
                return "ok";
            case "tryLock":
                return String.valueOf(arguments.isEmpty() ? lock.tryLock()
                    : lock.tryLock(number(arguments, 0), number(arguments, 1),
                        TimeUnit.MILLISECONDS));
            case "unlock":
                lock.unlock();
                return "ok";
            case "forceUnlock":
                return String.valueOf(lock.forceUnlock());
            case "isLocked":
                return String.valueOf(lock.isLocked());
            case "isHeld":
                return String.valueOf(lock.isHeldByCurrentThread());
            case "holdCount":
                return String.valueOf(lock.getHoldCount());
            case "ttl":
                return String.valueOf(lock.remainTimeToLive());
            case "hammer":
                return hammer(lock, arguments.get(0), (int) number(arguments, 1));
            case "peek":
                return peek(lock, arguments.get(0), (int) number(arguments, 1));
            default:
                return fenced((RFencedLock) lock, verb, arguments);
        }
    }

    private static String fenced(RFencedLock lock, String verb, List<String> arguments) {
        switch (verb) {
            case "lockToken":
                return String.valueOf(lock.lockAndGetToken());
            case "tryToken":
                return String.valueOf(lock.tryLockAndGetToken(
                    number(arguments, 0), number(arguments, 1), TimeUnit.MILLISECONDS));
            case "token":
                return String.valueOf(lock.getToken());
            default:
                throw Peer.unknown(verb);
        }
    }

    /* Add 1 to the number in the file so many times, each time under the lock. Nothing but the lock
     * keeps two from reading the same number. */
    private static String hammer(RLock lock, String path, int rounds) throws IOException {
        try (FileChannel file = FileChannel.open(
            Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            for (int i = 0; i < rounds; i++) {
                lock.lock();
                try {
                    long value = read(file);
                    Thread.yield();
                    file.write(ByteBuffer.wrap(String.format("%0" + DIGITS + "d", value + 1)
                        .getBytes(StandardCharsets.US_ASCII)), 0);
                } finally {
                    lock.unlock();
                }
            }
        }
        return "ok";
    }

    /* Look at the number twice under the lock, so many times, and count how often it moved. */
    private static String peek(RLock lock, String path, int rounds)
        throws IOException, InterruptedException {
        int moved = 0;
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ)) {
            for (int i = 0; i < rounds; i++) {
                lock.lock();
                try {
                    long before = read(file);
                    Thread.sleep(1);
                    moved += read(file) == before ? 0 : 1;
                } finally {
                    lock.unlock();
                }
            }
        }
        return "moved " + moved;
    }

    private static long read(FileChannel file) throws IOException {
        ByteBuffer digits = ByteBuffer.allocate(DIGITS);
        file.read(digits, 0);
        return Long.parseLong(new String(digits.array(), StandardCharsets.US_ASCII));
    }

    private static long number(List<String> arguments, int position) {
        return Long.parseLong(arguments.get(position));
    }
}
