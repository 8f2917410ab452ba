/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between what a lock is (core/) and where it is kept (engine/...).
 *
 * The core decides everything that can be decided here: who of this process is next, who re-enters,
 * what is lost. An engine carries out single operations on one name in the backend and tells how
 * each of them ended. Operations speak of *tenures*: the time from the first acquire of an owner
 * until its last release. A tenure has a number that this client never uses again; "<client
 * uuid>:<number>" is its owner string on the wire.
 *
 * Rules for every engine
 *
 * - submit() never blocks. Each operation is completed exactly once, by host->complete(), on any
 *   thread, possibly inside submit() itself, and by its deadline (+ 50 ms) as long as somebody
 *   drives or pumps.
 * - No call into the host is made while the engine holds a mutex of its own, and the host holds
 * none of its mutexes when it calls an engine.
 * - Every operation on a tenure checks that the tenure still holds; nothing an old tenure left
 * behind (late copies, repeated requests) may touch a newer one.
 * - An acquire that is repeated with the same tenure is the same acquire: it does not count twice,
 *   and it answers the same token, or a greater one if the backend came back with an older counter.
 * - All descriptors come from base/fds.h, so that a forked child closes them. */
#ifndef PAWL_CORE_ENGINE_H
#define PAWL_CORE_ENGINE_H

#include "base/limits.h"
#include "base/random.h"
#include "base/url.h"
#include "base/wait.h"
#include "pawl.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which rules a name follows in the backend. In one client a name has one family at a time. */
enum pawl__family {
    PAWL__FAMILY_MUTEX,
    PAWL__FAMILY_FAIR,   /* waiters stand in a queue that the backend keeps, each for itself */
    PAWL__FAMILY_SHARED, /* read/write: op->as says which */
    PAWL__FAMILY_SPIN,   /* a mutex whose release tells nobody */
    PAWL__FAMILY_PLAIN,  /* the textbook lock: no token, and its release tells nobody */
    PAWL__FAMILY_SEMAPHORE,
    PAWL__FAMILY_PERMITS, /* a semaphore whose permits have ids and leases */
    PAWL__FAMILY_LATCH
};

/* Is it one of those that count, and know PAWL__OP_TALLY, WATCH and UNWATCH alone? */
static inline bool pawl__family_counts(enum pawl__family family)
{
    return family >= PAWL__FAMILY_SEMAPHORE;
}

/* One name, as the engine knows it. The core allocates engine->place_size bytes that begin with
 * this struct; what follows is the engine's (its subscription, a descriptor, ...). A place outlives
 * every operation on it. */
struct pawl__place {
    const char *name; /* 1 to PAWL__NAME_SIZE_MAX bytes, no NUL inside, NUL-terminated */
    uint32_t name_size;
    enum pawl__family family : 8; /* small: every name has one of these */
    _Atomic bool clocked;         /* have acquires bring the server's clock, if it has one; any
                                     thread sets it, it stays so, and may be left alone */
};

enum pawl__op_kind {
    PAWL__OP_ACQUIRE, /* give tenure `id` the lock if it is free or its own already */
    PAWL__OP_RENEW,   /* if tenure `id` holds: let the lease end no earlier than lease_us from now.
                         SHARED: a hold for writing becomes one for reading, if `as` says so */
    PAWL__OP_VERIFY,  /* only look whether tenure `id` holds; change nothing */
    PAWL__OP_COUNT,   /* if tenure `id` holds: show `count` to people who look; lease untouched */
    PAWL__OP_RELEASE, /* if tenure `id` holds: free the lock and wake who waits. FAIR: whether or
                         not it holds, take it out of the queue */
    PAWL__OP_PASS,    /* if tenure `id` holds: give the lock to tenure `heir_id`, see `offer` */
    PAWL__OP_INSPECT, /* fill op->info. Of several holders, tell of tenure `id` if it is one */
    PAWL__OP_BREAK,   /* free the lock, whoever holds it, and wake who waits */
    PAWL__OP_TALLY,   /* count: see struct pawl__tally_ask */
    PAWL__OP_RAISE,   /* let the token counter be `token` at least, so that the next one is greater;
                         only for engines that say `raises` */
    PAWL__OP_WATCH,   /* from now on call host->wake() whenever this name may have become free.
                         FAIR: whenever it may be the turn of tenure `id` */
    PAWL__OP_UNWATCH
};

/* How an operation ended. */
enum pawl__answer {
    PAWL__PENDING,
    /* Answered by the backend. */
    PAWL__DONE, /* acquire: granted; renew, verify, count: still ours; release: released; pass: the
                   heir holds now; inspect, break, watch, unwatch: done */
    PAWL__HELD, /* acquire: somebody else holds; hint_us says for how long at most, if known, and
                   op->error may be a sentence about who */
    PAWL__SPARED, /* acquire, of several together: not given now, because another of them was not;
                     what an earlier one was given, it still has */
    PAWL__GONE,   /* renew, verify, count, release, pass: tenure `id` does not hold; break: it was
                     free */
    PAWL__LEFT,   /* pass with offer: `id` is released and the lock is free, because others wait for
                     it */
    /* Not answered: op->status and op->error say why. */
    PAWL__FAILED, /* nothing happened in the backend, and nothing will */
    PAWL__UNKNOWN /* it may have happened, or not, or (unless fenced later) may still happen */
};

/* What a semaphore or a latch is asked. Permits are those of SEMAPHORE and PERMITS. */
enum pawl__tally_verb {
    PAWL__TALLY_READ,  /* value: the count; 0 if none was set */
    PAWL__TALLY_SET,   /* if there is no count: begin with `amount`. GONE: there is one */
    PAWL__TALLY_ADD,   /* so many permits more, or fewer, and wake who waits */
    PAWL__TALLY_DRAIN, /* take all permits that are free; value: how many */
    PAWL__TALLY_TAKE,  /* take `amount` permits, if as many are free; else HELD, see hint_us.
                          PERMITS: by their ids, and no longer than lease_us from now */
    PAWL__TALLY_GIVE,  /* give them back and wake who waits. PERMITS: those of the ids that are out;
                          value: how many of them had time left */
    PAWL__TALLY_UNDO,  /* the same, if the TAKE of the same number has taken them; if it has not, it
                          never will. No amount: the same of a DRAIN */
    PAWL__TALLY_EXTEND, /* PERMITS: those of the ids that are out last at least lease_us from now;
                           `gone` says which are not out */
    PAWL__TALLY_DOWN,   /* LATCH: one less, and wake who waits at zero; value: what is left */
    PAWL__TALLY_RESET,  /* LATCH: forget it and wake who waits. GONE: nobody had set it */
    PAWL__TALLY_AWAIT   /* LATCH: DONE: it is at zero. HELD: it is not */
};

#define PAWL__JOINT_MAX PAWL_MULTI_MAX /* acquires that are one: any set */

#define PAWL__PERMIT_SIZE 16       /* bytes of an id */
#define PAWL__PERMITS_AT_ONCE 1000 /* ids in one operation */

struct pawl__permit_id {
    unsigned char bytes[PAWL__PERMIT_SIZE];
};

/* The question of a PAWL__OP_TALLY, whose op->id is the number of the request: asked again with the
 * same number it is the same request. It is carried out once and answers the same, for at least
 * keep_us. */
struct pawl__tally_ask {
    enum pawl__tally_verb verb;
    int64_t amount;
    struct pawl__permit_id *ids; /* PERMITS: take, give, undo, extend: `amount` of them */
    bool *gone;                  /* extend: as many, set by the engine */
    int64_t keep_us;
    uint64_t forget; /* the number of an earlier request on this name that nobody will ask again; 0:
                        none */
    int64_t value;   /* set by the engine */
    bool unset;      /* take, HELD: because nobody has set a count */
};

struct pawl__op {
    struct pawl__op
        *next; /* links a list given to submit() or complete(); in between the engine's */
    struct pawl__place *place;
    enum pawl__op_kind kind : 8; /* small: many of these exist */

    /* What is asked. */
    bool offer; /* pass: offer the lock to waiters of other clients first: if there are any, free it
                   (PAWL__LEFT) instead of passing it on */
    bool lazy;  /* nobody waits for the answer: it may be read when something else is, or when the
                   core wants to hear() it */
    bool wanted; /* renew: a caller waits for it, and would be told that it failed */
    bool queue;  /* acquire, FAIR: if it is not given now, stand in the backend's queue for it */
    bool joint;  /* acquire: together with the one before it in the list, all of them or none; only
                    for engines and families that say `joins`, PAWL__JOINT_MAX in a row, and none
                    of them to stand in a queue */
    pawl_kind as : 8;    /* SHARED: PAWL_READ or PAWL_WRITE */
    unsigned count;      /* count: the number to show */
    unsigned tokens;     /* acquire, pass: so many in a row are for this grant; 0: one */
    uint64_t id;         /* the tenure */
    uint64_t heir_id;    /* pass: the tenure that gets it */
    int64_t lease_us;    /* acquire, renew; pass: the heir's */
    int64_t sent_us;     /* when it was submitted: validity counts from here */
    int64_t deadline_us; /* when the engine has to give up on it */

    /* How it ended. */
    enum pawl__answer answer : 8;
    pawl_status status : 8; /* FAILED, UNKNOWN: the fault */
    bool again;  /* FAILED, UNKNOWN: trying again may help (outage), or surely not (a wrong type) */
    bool fenced; /* answered: no copy of an earlier operation of this client that ended UNKNOWN can
                    take effect after this one */
    bool others; /* release: waiters of other clients were told */
    int64_t hint_us; /* HELD: the holder's lease ends in so long; < 0: unknown */
    uint64_t token;  /* acquire, pass: DONE: the first one; raise: what is asked */
    char *error; /* a sentence from pawl__format(), or NULL; belongs to the core after completion */
    pawl_lock_info
        *info; /* inspect: filled by the engine: held, hold_count, remaining_ms, token, holder */
    struct pawl__tally_ask *tally; /* tally: what is asked, and more of the answer */

    void *core;   /* the core's: whose operation this is */
    void *engine; /* the engine's while it is pending */
};

/* What the core gives to an engine. */
struct pawl__settings {
    int64_t timeout_us;
    int64_t connect_timeout_us;
    pawl_guard guard;
    bool lazy;
};

struct pawl__host {
    struct pawl__settings settings;
    char uuid[PAWL__UUID_SIZE + 1]; /* of this client */

    /* All of these: any thread, no mutex of the engine held, never after close() has returned. */

    /* The operations of this list (linked by next) have ended. They belong to the core again. */
    void (*complete)(struct pawl__host *host, struct pawl__op *ops);

    /* This name may have become free. NULL: any name may have (messages may have been missed). With
     * an id, it may be the turn of that tenure alone; 0: of anybody. */
    void (*wake)(struct pawl__host *host, const char *name, size_t name_size, uint64_t id);

    /* Proof that tenure `id` of this name has lost the lock. */
    void (*lost)(struct pawl__host *host, const char *name, size_t name_size, uint64_t id);

    /* The connection is new, the backend may have lost what it knew: verify every hold, ask again
     * at once for everything that waits for a reconnect. */
    void (*reconnected)(struct pawl__host *host);

    /* Nobody drives, but something has to be read or timed: poll() and pump() me from now on. */
    void (*attend)(struct pawl__host *host);

    /* Something worth knowing; `message` is copied. Never contains secrets. */
    void (*log)(struct pawl__host *host, pawl_log_level level, const char *message);

    /* Does anybody hold something, or wait for it? Then a connection that broke has to come back
     * before it is needed. NULL: yes. */
    bool (*busy)(struct pawl__host *host);

    /* Is the client being closed? A list that takes long ends then. NULL: no. */
    bool (*closing)(struct pawl__host *host);
};

/* What a waiting caller waits for. */
enum pawl__await {
    PAWL__AWAIT_ANSWER, /* to an operation that was submitted */
    PAWL__AWAIT_WAKE    /* a wake-up for a name that is watched */
};

/* What may have changed, for people who watch. */
struct pawl__hint {
    char name[PAWL__NAME_SIZE_MAX + 1]; /* "": any */
    pawl_change change;                 /* what the backend says that happened; 0: just look */
    pawl_kind kind;                     /* of what, if a look shows nothing */
};

#define PAWL__FAMILY_BIT(family) (1U << (family))

#define PAWL__IDENTITY_SIZE 41 /* of a run's name, with its final NUL */

/* A look at a server's wall clock. */
struct pawl__clock_sample {
    int64_t asked_us; /* between this and */
    int64_t heard_us; /* this, by pawl__now_us(), */
    int64_t clock_us; /* it said this; 0: nobody has looked */
};

/* A server, from one start to the next. */
struct pawl__server_identity {
    char run_id[PAWL__IDENTITY_SIZE]; /* another one after each start */
    int64_t database;                 /* which of its sets of names is ours */
    bool replica;
    bool durable;                     /* the user says that it forgets nothing when it restarts */
    int64_t uptime_us;                /* by its own clock, */
    int64_t clock_us;                 /* which said this when */
    int64_t wall_us;                  /* our wall clock said this, */
    int64_t read_us;                  /* and pawl__now_us() this */
    struct pawl__clock_sample sample; /* of its clock, by the newest acquire that brought one */
};

/* How far the clock of another server is ahead of that of the one that keeps the note. */
struct pawl__clock_note {
    int64_t least_us;
    int64_t most_us;
    int64_t age_us;    /* so long ago; < 0: there is no note */
    int64_t jumped_us; /* it was found to have jumped so long ago; < 0: it was not */
};

/* When a run of another server was first seen, or something else that has a name. */
struct pawl__sighting {
    const char *run_id;
    int64_t note_us; /* if there is no note of it, note that it was so long ago; < 0: do not */
    int64_t age_us;  /* so long ago, says the note; < 0: there is none */
    bool lasting;    /* the note is never dropped, and there is none of its clock */
    struct pawl__clock_note clock; /* to be noted, unless its age is < 0; then: what was noted */
};

#define PAWL__POLL_MAX 4 /* descriptors one engine may ask the keeper to poll */

struct pawl__engine {
    const char *name;           /* "redis", in sentences and tables */
    const char *const *schemes; /* of the URLs it serves, NULL-terminated */
    size_t place_size;

    /* What the backend can do beyond the duties of every engine. */
    bool expires;      /* the backend itself ends a lease that is not renewed */
    bool sessions;     /* a renewed hold lives as long as this process: no deadline, no renewals */
    bool passes;       /* knows PAWL__OP_PASS, for the family MUTEX */
    bool raises;       /* knows PAWL__OP_RAISE */
    bool rows;         /* gives op->tokens in a row for one grant, without which nothing can be
                          handed on: the next grant would repeat a token */
    unsigned families; /* it can keep: a bit for each, PAWL__FAMILY_BIT() */
    unsigned joins;    /* of these it gives several together, all or none; see op->joint */

    /* Prepare from a URL; contacts nobody. On failure sets the last error. The host outlives the
     * engine. */
    pawl_status (*open)(struct pawl__url *url, struct pawl__host *host, void **self_out);

    /* First contact and its checks, by the deadline. Sets the last error. MAY BLOCK. */
    pawl_status (*connect)(void *self, int64_t deadline_us);

    /* The end, in two steps; no other thread is inside. stop() completes what is still open
     * (UNKNOWN or FAILED), and from then on submit() completes everything FAILED at once; NULL:
     * nothing is ever open. Then the places are closed. close() frees everything. */
    void (*stop)(void *self);
    void (*close)(void *self);

    /* Prepare a name, without asking anybody, for others are kept out meanwhile. Sets the last
     * error. */
    pawl_status (*place_open)(void *self, struct pawl__place *place);
    void (*place_close)(void *self, struct pawl__place *place);

    /* Ask whether this name, which is open, can work (rights). Several threads may ask at once,
     * also about the same. Sets the last error. MAY BLOCK, until the timeout. NULL: always. */
    pawl_status (*place_check)(void *self, struct pawl__place *place);

    /* Start these operations, in this order. `driven`: the calling thread is about to drive() for
     * an answer. */
    void (*submit)(void *self, struct pawl__op *ops, bool driven);

    /* The calling thread lends itself: read and complete until the waiter is done or nudged or the
     * deadline has come. NULL: the engine has threads of its own or completes inside submit(). */
    void (*drive)(
        void *self, enum pawl__await what, struct pawl__waiter *waiter, int64_t deadline_us);

    /* submit() as driven, and then drive() for an answer, in one. NULL: that would save nothing. */
    void (*ask)(void *self, struct pawl__op *ops, struct pawl__waiter *waiter, int64_t deadline_us);

    /* The answers to lazy operations have been left alone for long: from now on somebody waits for
     * those that are out. NULL: they come without. */
    void (*hear)(void *self);

    /* The keeper's part, for times when nobody drives. poll() fills at most PAWL__POLL_MAX entries
     * with what nobody else reads at the moment, or whose end alone is to be seen, lowers *due_us
     * to the engine's next timer, and answers the count; pump() then reads without blocking what is
     * ready and serves timers. NULL: nothing to do. */
    size_t (*poll)(void *self, struct pollfd *fds, int64_t *due_us);
    void (*pump)(void *self, const struct pollfd *fds, size_t count);

    /* As poll() and pump(), for a caller that waits for answers of several clients at once. Neither
     * promises anything for later. NULL: answers come without. */
    size_t (*glance)(void *self, struct pollfd *fds, int64_t *due_us);
    void (*gather)(void *self);

    /* Where the backend is, for sentences, without credentials: "redis://127.0.0.1:6379". NULL: it
     * has no place. */
    void (*where)(void *self, char *out, size_t size);

    /* What is known of the server behind the current connection, without asking it. False: nothing
     * (yet). NULL: it cannot restart without us. */
    bool (*identity)(void *self, struct pawl__server_identity *identity_out);

    /* For people who look. All of these may block, on the calling thread, and set the last error;
     * several threads may be inside. They never touch the connection that operations go by. NULL:
     * the engine cannot do it. A callback is never called with a mutex of the engine held. */

    /* Does the server remember everything when it restarts? */
    pawl_status (*durable)(void *self, bool *durable_out);

    /* Since when are these runs of other servers known here, and how did their clocks differ from
     * the one here? And what does that say now? */
    pawl_status (*seen)(void *self, struct pawl__sighting *sightings, size_t count,
        struct pawl__clock_sample *sample_out);

    /* Tell of every hold of every lock whose name matches the pattern (NULL: all), until the
     * callback has enough. The engine fills all of an entry. pawl__glob_matches() in base/glob.h
     * says what matches, for engines whose backend does not. */
    pawl_status (*list)(void *self, const char *pattern, pawl_entry_callback each, void *arg);

    /* The same for one name, held or not. size and name are set, all else is zero, but remaining_ms
     * (0), since_ms and waiters (-1). */
    pawl_status (*look)(void *self, const char *name, size_t name_size, pawl_entry *entry_out);

    /* Tell who stands in the queue of a fair lock, the next one first. */
    pawl_status (*queue)(
        void *self, const char *name, size_t name_size, pawl_waiter_callback each, void *arg);

    /* From now on collect hints about names that match. */
    pawl_status (*watch_open)(void *self, const char *pattern, void **watch_out);

    /* Wait until something may have changed, at most until the deadline. PAWL_OK: see the hint; a
     * hint too many costs one look, a missing one is found at the next look. PAWL_BUSY: nothing. A
     * fault: messages may have been missed since; the next call goes on. */
    pawl_status (*watch_wait)(
        void *self, void *watch, int64_t deadline_us, struct pawl__hint *hint_out);
    void (*watch_close)(void *self, void *watch);

    /* Do hints tell of every acquisition and every expiry at once? */
    bool (*watch_exact)(void *self, void *watch);

    /* Do hints tell of releases at once, and that they are releases? NULL: no. */
    bool (*watch_hears_releases)(void *self, void *watch);

    /* Tell what speaks for and against keeping locks here, topic by topic. */
    pawl_status (*examine)(void *self, pawl_finding_callback each, void *arg);
};

/* The engine that serves a scheme; NULL: none does. Defined in core/engines.c, the only place that
 * names them. */
const struct pawl__engine *pawl__engine_find(const char *scheme);

/* Says that there is none, and which there are. */
pawl_status pawl__engine_missing(const struct pawl__url *url);

#endif
