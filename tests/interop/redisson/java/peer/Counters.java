/* SPDX-License-Identifier: Apache-2.0 */
/* What the peer does with semaphores, with permits that expire, and with latches.
 *
 * Verbs, times in ms:
 *     semaphore  trySetPermits N  tryAcquire N [WAIT]  acquire N  release N  available  addPermits N
 *                drain
 *     permits    trySetPermits N  acquire WAIT LEASE (the id, or null)  release ID  tryRelease ID
 *                update ID LEASE  available  addPermits N
 *     latch      trySetCount N  countDown  count  await WAIT
 * A LEASE of -1 is: until released. */
package peer;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

final class Counters {
    private final RedissonClient redisson;

    Counters(RedissonClient redisson) {
        this.redisson = redisson;
    }

    String semaphore(String name, String verb, List<String> arguments)
        throws InterruptedException {
        RSemaphore semaphore = redisson.getSemaphore(name);
        int count = arguments.isEmpty() ? 0 : Integer.parseInt(arguments.get(0));
        switch (verb) {
            case "trySetPermits":
                return String.valueOf(semaphore.trySetPermits(count));
            case "tryAcquire":
                return String.valueOf(arguments.size() < 2 ? semaphore.tryAcquire(count)
                    : semaphore.tryAcquire(count, Duration.ofMillis(number(arguments, 1))));
            case "acquire":
                semaphore.acquire(count);
                return "ok";
            case "release":
                semaphore.release(count);
                return "ok";
            case "available":
                return String.valueOf(semaphore.availablePermits());
            case "addPermits":
                semaphore.addPermits(count);
                return "ok";
            case "drain":
                return String.valueOf(semaphore.drainPermits());
            default:
                throw Peer.unknown(verb);
        }
    }

    String permits(String name, String verb, List<String> arguments) throws InterruptedException {
        RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(name);
        switch (verb) {
            case "trySetPermits":
                return String.valueOf(permits.trySetPermits((int) number(arguments, 0)));
            case "acquire":
                return String.valueOf(permits.tryAcquire(
                    number(arguments, 0), number(arguments, 1), TimeUnit.MILLISECONDS));
            case "release":
                permits.release(arguments.get(0));
                return "ok";
            case "tryRelease":
                return String.valueOf(permits.tryRelease(arguments.get(0)));
            case "update":
                return String.valueOf(permits.updateLeaseTime(
                    arguments.get(0), number(arguments, 1), TimeUnit.MILLISECONDS));
            case "available":
                return String.valueOf(permits.availablePermits());
            case "addPermits":
                permits.addPermits((int) number(arguments, 0));
                return "ok";
            default:
                throw Peer.unknown(verb);
        }
    }

    String latch(String name, String verb, List<String> arguments) throws InterruptedException {
        RCountDownLatch latch = redisson.getCountDownLatch(name);
        switch (verb) {
            case "trySetCount":
                return String.valueOf(latch.trySetCount(number(arguments, 0)));
            case "countDown":
                latch.countDown();
                return "ok";
            case "count":
                return String.valueOf(latch.getCount());
            case "await":
                return String.valueOf(
                    latch.await(number(arguments, 0), TimeUnit.MILLISECONDS));
            default:
                throw Peer.unknown(verb);
        }
    }

    private static long number(List<String> arguments, int position) {
        return Long.parseLong(arguments.get(position));
    }
}
