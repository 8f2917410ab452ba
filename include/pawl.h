/* SPDX-License-Identifier: Apache-2.0 */
/* pawl.h: locks that several processes and hosts share.
 *
 * A complete program. Without a URL it locks among one user's processes on this machine and needs
 * no server; PAWL_URL=redis://127.0.0.1 makes the same binary lock across hosts.
 *
 *     #include <pawl.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         pawl_client *client = NULL;
 *         pawl_lock *lock = NULL;
 *         pawl_status status = pawl_client_open(NULL, NULL, &client);
 *         if (status == PAWL_OK) {
 *             status = pawl_lock_open(client, "nightly-report", NULL, &lock);
 *         }
 *         if (status == PAWL_OK) {
 *             status = pawl_lock_acquire(lock, 5000);
 *         }
 *         if (status == PAWL_OK) {
 *             printf("mine, with token %llu\n", (unsigned long long)pawl_lock_token(lock));
 *             status = pawl_lock_release(lock);
 *         }
 *         if (status != PAWL_OK) {
 *             fprintf(stderr, "%s\n", pawl_last_error());
 *         }
 *         pawl_lock_close(lock);
 *         pawl_client_close(client);
 *         return status == PAWL_OK ? 0 : 1;
 *     }
 *
 * THE CONTRACT IN SHORT
 *
 * Threads: every function may be called from any thread (pawl_watch_next() by one at a time). A
 * function that may wait says WAITS; it ends by the limit it names, even if the server is frozen.
 * Where that has wait_ms in it, PAWL_FOREVER means no limit but give_up_ms.
 *
 * Lost: a lock with a lease can be lost: the process was stopped for too long, the server lost its
 * data, an operator broke the lock, the thread that held it has ended. It is never lost silently:
 * on_lost is called, and pawl_lock_release() says PAWL_LOST. Give pawl_lock_token() along with what
 * you write, and let the store refuse smaller tokens: then a late write does no harm either.
 *
 * Time: durations are milliseconds. Time is CLOCK_BOOTTIME, so a suspended machine has not stopped
 * the clock. No wall clock decides anything on this side.
 *
 * Callbacks: they run one after another on one thread of the client (or in pawl_client_dispatch(),
 * if chosen; those of a quorum on a thread of its own, those of the operators' calls inside the
 * call), with no lock of the library held. A call that WAITS, made inside a callback, answers
 * PAWL_MISUSE and does nothing. A slow callback delays later callbacks, nothing else. What one is
 * given is valid while it runs; in `done` pawl_last_error() is about the call that has ended.
 *
 * Memory: strings and options are copied. What an _open gives, the matching _close takes back;
 * closing NULL is fine, and closing in the "wrong" order is safe. A struct begins with its `size`,
 * so that later versions can add members at the end: those beyond a smaller size have their
 * defaults; a larger one is PAWL_INVALID, unless what this version does not know is zero.
 *
 * fork: a child inherits no lock. Its copies of the handles answer PAWL_MISUSE; open new ones. What
 * the child does, and however it ends, never releases the parent's locks.
 *
 * Signals: the library installs no handlers, raises no SIGPIPE and never prints or aborts. */
#ifndef PAWL_H
#define PAWL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION_MAJOR 0
#define PAWL_VERSION_MINOR 1
#define PAWL_VERSION_PATCH 0

#define PAWL_API __attribute__((visibility("default")))
#define PAWL_CHECKED __attribute__((warn_unused_result))

/* ===== Status ===== */

/* What a call answers. Numbers are never reused. */
typedef enum pawl_status {
    PAWL_OK = 0,
    /* Answers: nothing is broken. */
    PAWL_BUSY = 1,     /* still held elsewhere when the wait ran out */
    PAWL_CANCELED = 2, /* pawl_lock_cancel() or a close ended the wait */
    PAWL_NOT_HELD = 3, /* the caller does not hold it, and did not lose it */
    PAWL_LOST = 4,     /* it did, but that ended too early: others may have run */
    PAWL_DEADLOCK = 5, /* the caller would wait for itself */
    /* Faults: no answer; trying again may help. */
    PAWL_UNAVAILABLE = 20, /* the backend could not be reached or did not answer in time */
    PAWL_DENIED = 21,      /* wrong credentials, or a right is missing */
    PAWL_PROTOCOL = 22,    /* the peer does not speak the protocol, or broke it */
    PAWL_NO_MEMORY = 23,
    PAWL_REFUSED = 24, /* reachable, but not fit to keep this lock */
    /* Mistakes: fix the calling code. */
    PAWL_INVALID = 40,    /* an argument, option or URL makes no sense */
    PAWL_MISUSE = 41,     /* right call, wrong moment: closed, forked, or inside a callback */
    PAWL_UNSUPPORTED = 42 /* this engine or build cannot do it */
} pawl_status;

/* One word for a status: "busy". Never NULL. */
PAWL_API const char *pawl_status_string(pawl_status status);

/* What went wrong in the calling thread's last failed call, in a sentence that names the thing and,
 * where there is one, the remedy. Valid until the thread's next call. Never NULL. */
PAWL_API const char *pawl_last_error(void);

/* ===== Client: one backend ===== */

/* One backend, and the threads that serve it. Share one client in the whole process: calls share
 * its connection, and callers that want the same lock queue up without asking the server. */
typedef struct pawl_client pawl_client;

/* How strictly to judge whether a server is fit to keep locks. A replica, a loading server and one
 * that is failing over are refused unless the guard is off. */
typedef enum pawl_guard {
    PAWL_GUARD_ENFORCE = 0, /* also refuse a server that may evict locks */
    PAWL_GUARD_WARN = 1,    /* log it and go on */
    PAWL_GUARD_OFF = 2
} pawl_guard;

typedef enum pawl_log_level { PAWL_LOG_WARNING = 0, PAWL_LOG_NOTICE = 1 } pawl_log_level;
typedef void (*pawl_log_callback)(pawl_log_level level, const char *message, void *arg);

typedef struct pawl_client_options {
    size_t size;                /* set by PAWL_CLIENT_OPTIONS_INIT */
    int64_t timeout_ms;         /* for each exchange with the backend, up to an hour; 0: 1000.
                                   Also ?timeout= */
    int64_t connect_timeout_ms; /* the same for connecting. Also ?connect_timeout= */
    int64_t give_up_ms;         /* PAWL_FOREVER ends after so long without any answer, up to ten
                                   years; 0: 30000. Also ?give_up= */
    pawl_guard guard;           /* also ?guard=enforce|warn|off */
    bool lazy;                  /* open succeeds before the first contact. Also ?lazy=1 */
    bool dispatch;              /* callbacks run in pawl_client_dispatch(), not on our thread */
    pawl_log_callback log;      /* NULL: silence. Runs like the other callbacks */
    void *log_arg;
} pawl_client_options;

#define PAWL_CLIENT_OPTIONS_INIT                                                           \
    {                                                                                      \
        sizeof(pawl_client_options), 0, 0, 0, PAWL_GUARD_ENFORCE, false, false, NULL, NULL \
    }

/* Connect to the backend that the URL names:
 *
 *     redis://[user:password@]host[:port][/db]    redis+unix:///path.sock[?db=n]
 *     file:///dir                                 memory:NAME (inside one process, for tests)
 *
 * NULL: the environment's PAWL_URL, and without one the embedded default, file: in /tmp/pawl-<uid>.
 * An empty string, given or in PAWL_URL, is PAWL_INVALID: it is what a forgotten variable leaves.
 * What the query of the URL says (?timeout=500ms) stands over the options. A password need not
 * stand in the URL: ?password_env=VARIABLE or ?password_file=/path. NULL options: the defaults.
 * WAITS: until first contact and its checks are done, unless lazy; connect timeout + timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_client_open(
    const char *url, const pawl_client_options *options, pawl_client **client_out);

/* End all waits with PAWL_CANCELED, release what is still held, run the callbacks that are due, and
 * free the client. Locks that are still open stay safe to close; their other calls answer
 * PAWL_MISUSE. PAWL_UNAVAILABLE: a release went unheard, or the taking back of what an acquire
 * without an answer may have got; that lock ends with its lease, but permits without a lease may
 * stay taken, and a latch may not be counted down. pawl_last_error() says which of these may be so.
 * WAITS: timeout, and for a callback that is running. */
PAWL_API pawl_status pawl_client_close(pawl_client *client);

/* For event loops (options.dispatch): a descriptor that is readable while callbacks are due, or -1
 * if dispatch was not chosen. It belongs to the client. */
PAWL_API int pawl_client_fd(pawl_client *client);

/* Run the callbacks that are due, on the calling thread; PAWL_MISUSE unless dispatch was chosen. */
PAWL_API pawl_status pawl_client_dispatch(pawl_client *client);

/* ===== Lock: one name ===== */

/* One named lock, of one kind, through one client. */
typedef struct pawl_lock pawl_lock;

/* What kind of lock it is. In one client a name has one kind at a time, but for READ and WRITE,
 * which belong together: many may read, one may write. Who writes may read as well, and goes on
 * reading when the write hold is released; who reads and asks to write gets PAWL_DEADLOCK. Kinds
 * that an engine cannot keep are PAWL_UNSUPPORTED at open. */
typedef enum pawl_kind {
    PAWL_MUTEX = 0, /* Redisson's lock: hash, hold count, publish on release */
    PAWL_FAIR = 1,  /* whoever has waited longest is next, over all processes */
    PAWL_READ = 2,
    PAWL_WRITE = 3,
    PAWL_SPIN = 4,  /* a mutex whose release tells nobody: waiters ask again and again */
    PAWL_PLAIN = 5, /* the textbook Redis lock: SET key token NX PX, compare-and-delete; no token */
    PAWL_SEMAPHORE = 6, /* no lock: only in pawl_entry */
    PAWL_LATCH = 7      /* the same */
} pawl_kind;

/* Who holds: the calling thread, as with a pthread_mutex_t, or the handle, whatever the thread. */
typedef enum pawl_owner { PAWL_OWNER_THREAD = 0, PAWL_OWNER_HANDLE = 1 } pawl_owner;

/* Whether an owner that holds the lock may acquire it again. By default a thread may and a handle
 * may not (PAWL_DEADLOCK). */
typedef enum pawl_reentry {
    PAWL_REENTRY_DEFAULT = 0,
    PAWL_REENTRY_ALLOW = 1,
    PAWL_REENTRY_REFUSE = 2
} pawl_reentry;

/* What on_lost and on_risk are told. Valid during the callback, which is not the thread that holds:
 * asked there, pawl_lock_remaining_ms() of a thread's hold says 0. */
typedef struct pawl_event {
    size_t size;
    pawl_lock *lock;    /* the handle that the hold was first acquired through */
    pawl_status status; /* PAWL_LOST; for on_risk PAWL_UNAVAILABLE */
    uint64_t token;     /* of the hold in question */
    uint64_t owner;     /* who held it: as pawl_owner_self(), or a number of the handle's own */
} pawl_event;

typedef void (*pawl_event_callback)(const pawl_event *event, void *arg);
typedef void (*pawl_callback)(pawl_lock *lock, pawl_status status, void *arg);

typedef struct pawl_lock_options {
    size_t size; /* set by PAWL_LOCK_OPTIONS_INIT */
    pawl_kind kind;
    pawl_owner owner;
    pawl_reentry reentry;
    pawl_lock *same_owner_as; /* PAWL_OWNER_HANDLE: share that handle's owner */
    int64_t lease_ms;    /* how long the lock outlives a holder that died: 10 ms to ten years */
    bool renew;          /* extended in the background, every third of the lease, while held */
    int64_t max_hold_ms; /* the lease never reaches beyond acquire + this; 0: no limit */
    unsigned handoff; /* PAWL_MUTEX: inside this process it changes hands so often without a word to
                         the backend before others get a turn; 0: each time the backend is told */
    bool release_unawaited; /* release returns when sent; a loss found later comes by on_lost */
    int64_t warn_ms;        /* on_risk when less than this is left and renewal is failing;
                               0: a third of the lease */
    pawl_event_callback on_risk; /* once each time that the hold comes into danger */
    pawl_event_callback on_lost; /* exactly once for every hold that is lost */
    void *event_arg;
    /* For pawl_lock_open_quorum() alone. */
    int64_t node_timeout_ms;  /* how long one server's grant is waited for; 0: 50 */
    int64_t max_lease_ms;     /* no lease is longer than this, by anybody; 0: 30000 */
    pawl_guard restart_guard; /* about servers that may have forgotten holds: by a restart, or by a
                                 clock that jumped */
} pawl_lock_options;

#define PAWL_LOCK_OPTIONS_INIT                                                                \
    {                                                                                         \
        sizeof(pawl_lock_options), PAWL_MUTEX, PAWL_OWNER_THREAD, PAWL_REENTRY_DEFAULT, NULL, \
            30000, true, 0, 0, false, 0, NULL, NULL, NULL, 0, 0, PAWL_GUARD_ENFORCE           \
    }

/* Open a lock by its name: 1 to 1024 bytes, no NUL. This asks nothing of the backend but, where the
 * credentials are restricted, whether they suffice for this name. NULL options: the defaults.
 * PAWL_INVALID: options that contradict each other, or the client has the name as another kind.
 * WAITS: timeout, in that case; never to be called inside a callback.
 *
 * A hold belongs to the client, the name and the owner, not to the handle: another handle of the
 * same client and name in the same thread re-enters, and the options of the first acquire rule. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_open(
    pawl_client *client, const char *name, const pawl_lock_options *options, pawl_lock **lock_out);

/* Redlock: one lock that a majority of independent servers keeps, 1 to 15 of them, a client for
 * each. Of 2n + 1 servers n may fail. All are asked at once, and the lock is the caller's as soon
 * as a majority has granted it; its token is the greatest of theirs. docs/redlock.md says when this
 * is worth its price.
 *
 * Of the options, kind must be PAWL_MUTEX, and same_owner_as and handoff are not for this. lease_ms
 * may not be longer than max_lease_ms, which has to be the same in all programs that use the lock:
 * a server that restarts and may have forgotten what it had granted does not vote before
 * max_lease_ms have passed since it was first seen, so that nobody's hold can be among what it
 * forgot. It votes at once if it is durable (appendonly with appendfsync always, or ?durable=1 in
 * its URL) and its data is older than that. Nor does a server vote whose wall clock has jumped,
 * durable or not, for max_lease_ms from when that was found. restart_guard: PAWL_GUARD_WARN lets
 * them vote and logs that, PAWL_GUARD_OFF lets them vote and does not look.
 *
 * All calls on a lock can be used. A hold belongs to the handle and the owner: another handle of
 * the same quorum and name contends, also in the same thread. With release_unawaited, what only the
 * servers know of a loss is not told after the release. PAWL_REFUSED from an acquire: too many
 * servers have just restarted, or have clocks that jumped; the sentence names them and the seconds
 * left. Or, at once: the name is something else at so many that no majority is left.
 * PAWL_INVALID: two lazy clients lead to the same server, which has one vote. on_risk and on_lost
 * are about the majority. A hold that not all of the servers keep is told by the log of each
 * missing one's client, once for each outage. Callbacks run on a thread of this lock, whatever the
 * clients' options say. The clients stay the caller's, and should be closed after the lock. WAITS:
 * connect timeout + timeout, for each server. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_open_quorum(pawl_client *const clients[], size_t count,
    const char *name, const pawl_lock_options *options, pawl_lock **lock_out);

/* End the waits on this handle with PAWL_CANCELED, release what was acquired through it and not yet
 * released, and free it. No callback of this handle starts afterwards, but `done` of an
 * asynchronous call, which is always called. PAWL_LOST, PAWL_UNAVAILABLE: of the release; the
 * handle is freed all the same. WAITS: timeout, and for a callback of this handle that is running.
 */
PAWL_API pawl_status pawl_lock_close(pawl_lock *lock);

/* ===== Acquire, use, release ===== */

#define PAWL_TRY 0        /* ask once */
#define PAWL_FOREVER (-1) /* wait until it is free */

/* Acquire the lock. PAWL_OK means that the caller holds it now.
 *
 * PAWL_TRY asks once; n > 0 waits up to n milliseconds for the lock (ten years at most);
 * PAWL_FOREVER waits through outages and gives up only after give_up_ms without any answer.
 * PAWL_BUSY: somebody holds it. PAWL_UNAVAILABLE: nobody answered; should the request be granted
 * late, it is taken back in the background. PAWL_LOST: the caller still has a lost hold to release.
 * WAITS: max(wait_ms, timeout). */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_acquire(pawl_lock *lock, int64_t wait_ms);

/* Release it once. After anything but PAWL_INVALID and PAWL_MISUSE the caller no longer holds it
 * (or holds it once less). PAWL_LOST: the hold had ended before; others may have been inside.
 * PAWL_UNAVAILABLE: not confirmed; it is repeated in the background until answered or until the
 * lease is over. A lost hold is released as often as it was acquired, each time with PAWL_LOST.
 * WAITS: timeout. */
PAWL_API pawl_status pawl_lock_release(pawl_lock *lock);

/* Make the hold last at least lease_ms from now. Nothing ever shortens a hold. PAWL_INVALID: that
 * would be beyond max_hold_ms. PAWL_NOT_HELD, PAWL_LOST: there is nothing to extend.
 * PAWL_UNAVAILABLE: nobody knows whether it was. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_extend(pawl_lock *lock, int64_t lease_ms);

/* The fencing token of the caller's hold, greater than that of every earlier hold of this name; 0:
 * the caller does not hold it (any more), or it has none (PAWL_PLAIN, a multi-lock). Read it right
 * after the acquire, while it is surely held. */
PAWL_API uint64_t pawl_lock_token(const pawl_lock *lock);

/* How long the caller surely still holds the lock, counted from before the request was sent, less
 * an allowance for clock drift (1 % of the lease + 2 ms), rounded down. 0: not held, or hardly any
 * more. INT64_MAX: until released. */
PAWL_API int64_t pawl_lock_remaining_ms(const pawl_lock *lock);

/* How often the caller has acquired and not yet released it. */
PAWL_API unsigned pawl_lock_hold_count(const pawl_lock *lock);

#define PAWL_OWNER_SIZE 128 /* room for every owner string, with its final NUL */

/* The owner string of the caller's hold, as the backend shows it to others (pawl_lock_info.holder,
 * pawl_entry.holder). PAWL_NOT_HELD: the caller holds nothing; PAWL_LOST: no longer; both leave "".
 * `size` is the room at owner_out: PAWL_OWNER_SIZE is always enough. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_owner(
    const pawl_lock *lock, char *owner_out, size_t size);

/* The calling thread's number, as in pawl_event.owner. Never used again in this process. */
PAWL_API uint64_t pawl_owner_self(void);

/* ===== Without blocking ===== */

/* The same without waiting, for handles with PAWL_OWNER_HANDLE; PAWL_INVALID for others. If these
 * return PAWL_OK, `done` is called exactly once; otherwise never. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_acquire_async(
    pawl_lock *lock, int64_t wait_ms, pawl_callback done, void *arg);
PAWL_API PAWL_CHECKED pawl_status pawl_lock_release_async(
    pawl_lock *lock, pawl_callback done, void *arg);

/* End every wait on this handle that began before the call, with PAWL_CANCELED. */
PAWL_API void pawl_lock_cancel(pawl_lock *lock);

/* ===== Several locks at once ===== */

#define PAWL_MULTI_MAX 1024 /* members of a multi-lock */

/* A lock that is held when all of its members are: 1 to PAWL_MULTI_MAX locks of one or several
 * clients, of any kind, all of them with the same sort of owner. No name twice on one backend.
 *
 * Acquire: all or none. Whatever ends it but PAWL_OK, nothing is held through it afterwards; in the
 * error text stands which member stopped it. wait_ms is for the whole. Every process takes members
 * in the same order, by name and then by backend, whatever the order here, so two multi-locks never
 * wait for each other; if one name is locked on several backends, their URLs must be written alike
 * everywhere. Members of one client on Redis are granted all at the same moment, and for the first
 * second of a wait none is held; with a fair one among them so only if all are free at once, and
 * one by one otherwise.
 * PAWL_LOST: a member was lost while others were waited for; if its lease is fixed, as soon as that
 * is over. The caller never had the set, so on_lost of the member is not called, unless the caller
 * held that one besides. WAITS: max(wait_ms, timeout), and a timeout to give back what it had, for
 * each client that has members.
 *
 * It makes the members themselves held by the caller: ask them for tokens. The multi-lock's own
 * token is 0, its remaining time the least of its members', its owner string that of locks[0].
 * Release releases every member, whatever happens with others, and answers the worst: PAWL_LOST if
 * one was lost. Extend extends all. Inspect: held if every member is held by somebody. Break:
 * PAWL_UNSUPPORTED, break the member. A member's callbacks tell of its loss.
 *
 * The multi-lock has handles of its own: members stay open and the caller's, and may be closed
 * first (then they call back no more). Members have leases and all the rest, so of the options
 * only `owner` may differ from the defaults, and must then be the members'. `done` of asynchronous
 * calls runs as callbacks of the members' clients do, on one of them. WAITS: not, but not to be
 * called inside a callback. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_open_multi(
    pawl_lock *const locks[], size_t count, const pawl_lock_options *options, pawl_lock **lock_out);

/* How the last acquire or release of this member through the multi-lock ended, whichever thread it
 * was; the index is that of locks[] at open. PAWL_OK before the first. After an acquire that
 * failed, the member that stopped it shows why, one that was given back how that ended, and one
 * that was not given because of another PAWL_OK: nothing was wrong with it, nor is it held.
 * PAWL_INVALID: no such member, or no multi-lock. */
PAWL_API pawl_status pawl_lock_member_status(const pawl_lock *lock, size_t index);

/* ===== Many keys, few names ===== */

#define PAWL_STRIPES_MAX 65536

/* One of `count` names for a key of any bytes: "<prefix>:<number>", the number in decimal digits,
 * always 5 of them. The same key gives the same name for the same prefix and count, in every
 * process, on every machine and in every version. Two keys may get the same name: then their
 * holders wait for each other, and one thread that locks both re-enters. PAWL_INVALID: count is not
 * 1 to PAWL_STRIPES_MAX, the name would be longer than 1024 bytes, or `size` has no room for it. */
PAWL_API PAWL_CHECKED pawl_status pawl_stripe_name(const char *prefix, const void *key,
    size_t key_size, unsigned count, char *name_out, size_t size);

/* ===== Semaphore: so many at a time ===== */

/* A number of permits under a name, shared by all who open it: up to so many callers, of whatever
 * process or host, hold one at the same time. Permits belong to nobody: whoever likes may give back
 * what another has taken, and a process that dies keeps the permits it had, for ever; an operator
 * gives them back with pawl_semaphore_add(). If that will not do, let the permits have leases.
 *
 * A name is a lock, a plain semaphore, a leased one or a latch, not two of them: PAWL_INVALID in
 * one client. Between clients only Redis can tell, and only a lock that is held from a count that
 * is set (PAWL_REFUSED): both semaphores and a latch are a mere number there, and nobody notices
 * who uses one as another and spoils its count. On Redis these are Redisson's RSemaphore,
 * RPermitExpirableSemaphore and RCountDownLatch. Files keep none of them (PAWL_UNSUPPORTED).
 *
 * In every call that counts: if its answer is lost, it is repeated, and counts once nevertheless.
 * PAWL_UNAVAILABLE: nobody answered in time. An acquire that was granted unheard is then taken back
 * in the background, a release and a count-down go on; of the others nobody knows whether they were
 * carried out. PAWL_REFUSED: it was not carried out and will not be; a release and a count-down
 * that the backend refuses only for the time being go on, and say PAWL_UNAVAILABLE. The numbers
 * that a backend keeps go from -2147483648 to 2147483647. */
typedef struct pawl_semaphore pawl_semaphore;

/* One permit that has a lease: its id, 32 hexadecimal digits. */
typedef struct pawl_permit {
    char id[33];
} pawl_permit;

typedef void (*pawl_semaphore_callback)(pawl_semaphore *semaphore, pawl_status status, void *arg);

/* `permits` has `count` entries if the status is PAWL_OK, and is NULL otherwise. */
typedef void (*pawl_permit_callback)(pawl_semaphore *semaphore, pawl_status status,
    const pawl_permit *permits, size_t count, void *arg);

typedef struct pawl_semaphore_options {
    size_t size;      /* set by PAWL_SEMAPHORE_OPTIONS_INIT */
    bool leased;      /* permits have ids and leases: the pawl_permit_ calls below */
    int64_t lease_ms; /* leased: how long a permit outlives a holder: 10 ms to ten years */
    bool renew; /* leased: extended in the background, every third of the lease, until released
                   or until this handle is closed */
    pawl_permit_callback on_lost; /* leased and renewed: once for every permit that is lost, with
                                     PAWL_LOST and that permit */
    void *event_arg;
} pawl_semaphore_options;

#define PAWL_SEMAPHORE_OPTIONS_INIT                                    \
    {                                                                  \
        sizeof(pawl_semaphore_options), false, 30000, true, NULL, NULL \
    }

/* Open a semaphore by its name, as a lock is: this asks nothing of the backend but, where the
 * credentials are restricted, whether they suffice. NULL options: the defaults. WAITS: timeout, in
 * that case. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_open(pawl_client *client, const char *name,
    const pawl_semaphore_options *options, pawl_semaphore **semaphore_out);

/* End the waits on this handle with PAWL_CANCELED and free it. Permits that were acquired without a
 * lease stay taken; those with a lease are given back if they were renewed by this handle, and
 * otherwise end with their leases. An asynchronous release that is under way goes on; `done` is
 * always called. WAITS: timeout, and for a callback that is running. */
PAWL_API pawl_status pawl_semaphore_close(pawl_semaphore *semaphore);

/* Begin with so many permits (0 to 2147483647), unless that was done before: every process may do
 * it when it starts. set_out, if not NULL, is told whether it was this call. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_set(
    pawl_semaphore *semaphore, int64_t permits, bool *set_out);

/* So many permits more, or, below 0, fewer. If fewer are free than are to go, the number of free
 * ones goes below zero, and permits vanish as they come back. PAWL_UNAVAILABLE: it may have been
 * done, or not; look before you ask again. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_add(pawl_semaphore *semaphore, int64_t permits);

/* Take all permits that are free, and say how many. PAWL_UNAVAILABLE: nobody knows; what was taken
 * is given back in the background. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_drain(
    pawl_semaphore *semaphore, int64_t *permits_out);

/* How many permits are free; 0 if nobody has set any. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_available(
    pawl_semaphore *semaphore, int64_t *permits_out);

/* Take so many permits (1 to 2147483647), all or none. wait_ms is PAWL_TRY, PAWL_FOREVER or
 * milliseconds, as for a lock. PAWL_BUSY: fewer are free. Callers of one process who wait are
 * served in their order, so that one who wants many is not starved by those who want few.
 * PAWL_UNAVAILABLE: nobody answered; PAWL_FOREVER ends so, too, when asking again could take twice:
 * after about twice give_up_ms without an answer. Not for leased permits (PAWL_INVALID). WAITS:
 * max(wait_ms, timeout). */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_acquire(
    pawl_semaphore *semaphore, int64_t permits, int64_t wait_ms);

/* Give so many permits back. Nobody checks that the caller had as many. PAWL_UNAVAILABLE: not
 * confirmed, or refused for the time being (the server is loading, a replica, ...); it is repeated
 * in the background for as long as the client is open, but not for more than a minute after it may
 * have been heard. Do not call it again for the same permits: that would count twice. WAITS:
 * timeout. */
PAWL_API pawl_status pawl_semaphore_release(pawl_semaphore *semaphore, int64_t permits);

/* The same without waiting. If these return PAWL_OK, `done` is called exactly once, with what the
 * other call would have answered; otherwise never. */
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_acquire_async(pawl_semaphore *semaphore,
    int64_t permits, int64_t wait_ms, pawl_semaphore_callback done, void *arg);
PAWL_API PAWL_CHECKED pawl_status pawl_semaphore_release_async(
    pawl_semaphore *semaphore, int64_t permits, pawl_semaphore_callback done, void *arg);

/* End every wait on this handle that began before the call, with PAWL_CANCELED. */
PAWL_API void pawl_semaphore_cancel(pawl_semaphore *semaphore);

/* ===== Permits that have a lease (options.leased) ===== */

#define PAWL_PERMITS_MAX 1000 /* in one call */

/* Take `count` permits (1 to PAWL_PERMITS_MAX), all or none, for lease_ms from now. Their ids are
 * put into permits_out, which has room for as many. A permit that is not released comes back when
 * its lease is over; unless renew is off that is only after this process has died, or could not
 * reach the backend for so long. WAITS: max(wait_ms, timeout). */
PAWL_API PAWL_CHECKED pawl_status pawl_permit_acquire(
    pawl_semaphore *semaphore, size_t count, int64_t wait_ms, pawl_permit *permits_out);
PAWL_API PAWL_CHECKED pawl_status pawl_permit_acquire_async(
    pawl_semaphore *semaphore, size_t count, int64_t wait_ms, pawl_permit_callback done, void *arg);

/* Give permits back by their ids, whoever took them. PAWL_LOST: at least one of them was not out
 * any more, because its lease had ended (or it had been released, or never given); the others are
 * released. PAWL_UNAVAILABLE: as for pawl_semaphore_release(). WAITS: timeout. */
PAWL_API pawl_status pawl_permit_release(
    pawl_semaphore *semaphore, const pawl_permit *permits, size_t count);
PAWL_API PAWL_CHECKED pawl_status pawl_permit_release_async(pawl_semaphore *semaphore,
    const pawl_permit *permits, size_t count, pawl_semaphore_callback done, void *arg);

/* Make them last at least lease_ms from now; nothing ever shortens a lease. PAWL_LOST: at least one
 * is not out any more; the others are extended. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_permit_extend(
    pawl_semaphore *semaphore, const pawl_permit *permits, size_t count, int64_t lease_ms);

/* How long a permit that this handle renews is surely still out, as pawl_lock_remaining_ms()
 * counts. 0: this handle does not renew it, or no longer. */
PAWL_API int64_t pawl_permit_remaining_ms(
    const pawl_semaphore *semaphore, const pawl_permit *permit);

/* ===== Latch: wait until so much has happened ===== */

/* A number under a name that is set once and counted down; who waits goes on when it has reached
 * zero. A latch that nobody has set is at zero. */
typedef struct pawl_latch pawl_latch;

typedef void (*pawl_latch_callback)(pawl_latch *latch, pawl_status status, void *arg);

/* Open a latch by its name, as a semaphore is. WAITS: the same. */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_open(
    pawl_client *client, const char *name, pawl_latch **latch_out);

/* End the waits on this handle with PAWL_CANCELED and free it. An asynchronous count-down that is
 * under way goes on; `done` is always called. WAITS: for a callback that is running. */
PAWL_API pawl_status pawl_latch_close(pawl_latch *latch);

/* Set it to 1 to 2147483647, unless it is set already and has not reached zero. set_out, if not
 * NULL, is told whether it was this call. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_set(pawl_latch *latch, int64_t count, bool *set_out);

/* One less. At zero, and on a latch that nobody has set, it does nothing. PAWL_UNAVAILABLE: as for
 * pawl_semaphore_release(). WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_count_down(pawl_latch *latch);
PAWL_API PAWL_CHECKED pawl_status pawl_latch_count_down_async(
    pawl_latch *latch, pawl_latch_callback done, void *arg);

/* What is left to be counted down. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_count(pawl_latch *latch, int64_t *count_out);

/* Wait until it is at zero. PAWL_BUSY: it was not within wait_ms. A latch that is set anew before a
 * caller that waits has seen it at zero keeps that caller waiting. WAITS: max(wait_ms, timeout). */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_wait(pawl_latch *latch, int64_t wait_ms);
PAWL_API PAWL_CHECKED pawl_status pawl_latch_wait_async(
    pawl_latch *latch, int64_t wait_ms, pawl_latch_callback done, void *arg);

/* Forget what is left: the latch is at zero, and who waits goes on. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_latch_reset(pawl_latch *latch);

/* End every wait on this handle that began before the call, with PAWL_CANCELED. */
PAWL_API void pawl_latch_cancel(pawl_latch *latch);

/* ===== For operators ===== */

typedef struct pawl_lock_info {
    size_t size;          /* set by the caller to sizeof(pawl_lock_info) */
    bool held;            /* by anybody */
    bool held_by_caller;  /* validly, by the calling owner */
    unsigned hold_count;  /* of the holder, as the backend shows it */
    int64_t remaining_ms; /* until the backend lets go if nobody renews; -1: it never would */
    uint64_t token;       /* the last token given out for this name; 0: unknown */
    char holder[128];     /* the owner string in the backend; "" when free */
} pawl_lock_info;

/* Ask the backend who holds the lock. The caller sets info_out->size. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_inspect(pawl_lock *lock, pawl_lock_info *info_out);

/* Take the lock away from whoever holds it. The holder learns that it is lost, at its next renewal
 * or call at the latest. PAWL_NOT_HELD: it was free. WAITS: timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_lock_break(pawl_lock *lock);

/* The rest of this header is about all locks of a backend, whoever holds them: those of this
 * process, of other hosts, of Redisson. These calls ask on a connection of their own each time and
 * never delay a lock; they run on the calling thread and so do their callbacks, in which, as in
 * every callback, a call that WAITS answers PAWL_MISUSE. PAWL_UNSUPPORTED: this engine cannot do
 * it.
 *
 * A pattern means whole names: * any bytes, ? any one byte, [abc] [a-z] [^x] one of these (or not),
 * and a backslash before a character means that character. NULL: all names. */

/* One hold of one lock, as the backend shows it. A lock that several share comes once for each, and
 * so does, on Redis, a semaphore whose permits have leases, as long as one of them is out: the
 * holder is the permit's id, and nobody can tell whose it is. A semaphore without leases is a
 * number like any other, and not told. */
typedef struct pawl_entry {
    size_t size;     /* set by the library in callbacks, and by the caller for pawl_client_look() */
    char name[1025]; /* as it is: a name may have control bytes, which a terminal should not get */
    pawl_kind kind;  /* a fair lock that nobody waits for looks like a mutex on Redis */
    bool held;       /* false: only from pawl_client_look(), and where a watch says so */
    unsigned hold_count;  /* how often the holder has acquired it */
    int64_t remaining_ms; /* until the backend lets go if nobody renews; -1: it never would */
    uint64_t token;       /* the last token given out for this name; 0: unknown */
    char holder[128];     /* the owner string; "" when free */
    char host[65];        /* of the holding process; "": unknown, as with Redisson */
    int64_t pid;          /* of it, on that host; 0: unknown */
    char command[129];    /* the program's name; "": unknown */
    int64_t since_ms;     /* how long ago the holding client began; -1: unknown */
    int64_t waiters;      /* processes that surely wait for it, there may be more; -1: unknown. Of a
                             fair lock: how many stand in its queue */
    int64_t permits;      /* of a semaphore: how many it has, those that are out among them */
    int64_t free_permits; /* and how many are not out; below zero after more were taken away
                             (pawl_semaphore_add) than were free */
} pawl_entry;

/* The entry is valid during the callback. Answer false for: enough. */
typedef bool (*pawl_entry_callback)(const pawl_entry *entry, void *arg);

/* Tell of every lock that is held and whose name matches the pattern, in no order. One that is held
 * during the whole call comes once; one that comes or goes meanwhile may come or not. Gentle: on
 * Redis it walks through the keys in small pages and lets others go first in between. PAWL_OK: all
 * were told, or the callback had enough. WAITS: connect timeout, and timeout for each page. */
PAWL_API PAWL_CHECKED pawl_status pawl_client_list(
    pawl_client *client, const char *pattern, pawl_entry_callback each, void *arg);

/* The same for one name, held or not. The caller sets entry_out->size to sizeof(pawl_entry). Of
 * several holders it shows one. WAITS: connect timeout + timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_client_look(
    pawl_client *client, const char *name, pawl_entry *entry_out);

/* One who waits for a fair lock, as the lock's queue shows it. */
typedef struct pawl_waiter {
    size_t size;       /* set by the library */
    unsigned position; /* 1: the next to get the lock */
    int64_t alive_ms;  /* until it counts as dead, unless it asks again; 0: it does already */
    char owner[128];   /* the owner string */
    char host[65];     /* of the waiting process; "": unknown, as with Redisson */
    int64_t pid;       /* of it, on that host; 0: unknown */
    char command[129]; /* the program's name; "": unknown */
} pawl_waiter;

/* The waiter is valid during the callback. Answer false for: enough. */
typedef bool (*pawl_waiter_callback)(const pawl_waiter *waiter, void *arg);

/* Tell who stands in the queue of a fair lock, the next one first, the first thousand at most. None
 * is told of a name that is no fair lock, or that nobody waits for. WAITS: connect timeout +
 * timeout. */
PAWL_API PAWL_CHECKED pawl_status pawl_client_queue(
    pawl_client *client, const char *name, pawl_waiter_callback each, void *arg);

/* Locks as they come and go. */
typedef struct pawl_watch pawl_watch;

typedef enum pawl_change {
    PAWL_ACQUIRED = 1,
    PAWL_RELEASED = 2, /* or broken; permits came back or were added; a latch is at zero */
    PAWL_EXPIRED = 3   /* nobody renewed it in time */
} pawl_change;

typedef struct pawl_watch_event {
    size_t size; /* set by the caller to sizeof(pawl_watch_event) */
    pawl_change change;
    bool exact;       /* the backend told it at that moment; otherwise it was found by looking */
    pawl_entry entry; /* acquired: the new hold; otherwise the one that ended, as it was last seen.
                         Only name and kind are sure: a hold may be too short to be seen */
} pawl_watch_event;

/* Begin to watch the locks that match the pattern. What is held now is the beginning and no event.
 * look_ms: how often to look for what no message tells; 0: 1000. Where looking takes long (many
 * keys) it is done less often. WAITS: as pawl_client_list(). */
PAWL_API PAWL_CHECKED pawl_status pawl_watch_open(
    pawl_client *client, const char *pattern, int64_t look_ms, pawl_watch **watch_out);

/* The next event. PAWL_BUSY: none within wait_ms (PAWL_TRY, PAWL_FOREVER, or milliseconds). A lock
 * that was released and taken by another since the last look gives PAWL_RELEASED, then
 * PAWL_ACQUIRED; of several such turns the last may be all that is told. A connection that breaks
 * is made anew; PAWL_UNAVAILABLE: that failed for this time, and the next call tries again. One
 * thread at a time. WAITS: wait_ms, and when it looks connect timeout + timeout for each page. */
PAWL_API PAWL_CHECKED pawl_status pawl_watch_next(
    pawl_watch *watch, int64_t wait_ms, pawl_watch_event *event_out);

/* Do acquisitions and expiries come by message, too? (On Redis: if keyspace events are on, Kghxz;
 * but for plain locks, and for readers and permits whose lease ends.) */
PAWL_API bool pawl_watch_exact(const pawl_watch *watch);

/* Do at least releases come by message? (On Redis: if the user may subscribe; not those of spin and
 * plain locks, nor of fair ones that nobody waits for. In files: no.) */
PAWL_API bool pawl_watch_hears_releases(const pawl_watch *watch);

/* Closing NULL is fine, and so is closing after the client. */
PAWL_API void pawl_watch_close(pawl_watch *watch);

/* Is a backend fit to keep locks? */
typedef enum pawl_verdict { PAWL_FIT = 0, PAWL_WARNING = 1, PAWL_UNFIT = 2 } pawl_verdict;

/* Valid during the callback. */
typedef struct pawl_finding {
    size_t size;
    pawl_verdict verdict;
    const char *topic;    /* one word, the same in every version: "version", "persistence" */
    const char *sentence; /* what was seen */
    const char *remedy;   /* what to do about it, maybe with a line to paste; "" when fit */
} pawl_finding;

typedef void (*pawl_finding_callback)(const pawl_finding *finding, void *arg);

/* Examine the backend and tell what was found, topic by topic. PAWL_OK: it could be examined,
 * whatever was found. To examine a server that pawl_client_open() refuses, open with the guard off,
 * or lazily. WAITS: connect timeout, and timeout for each question. */
PAWL_API PAWL_CHECKED pawl_status pawl_client_examine(
    pawl_client *client, pawl_finding_callback each, void *arg);

#ifdef __cplusplus
}
#endif

#endif
