/* SPDX-License-Identifier: Apache-2.0 */
/* The heart: what a lock is, as a pure machine.
 *
 * One machine per client. It is told what happens (a caller wants, an operation ended, time passed)
 * together with the time, and it answers by filling its outputs: operations to submit, requests
 * that are finished, notices for callbacks. It touches no socket, no clock and no thread, so the
 * blocking call, the asynchronous call and the simulator are three drivers of the same code. The
 * driver calls it under one mutex.
 *
 * Words
 *
 * A request is one call of a user that is not answered yet: acquire, release, extend, inspect or
 * break.
 *
 * A tenure is one owner's time with a lock, from the first acquire to the last release. It begins
 * as a claim: an acquire request that does not re-enter gets one when its turn in the queue has
 * come.
 *
 * A name is a lock's name in this client: the tenures that are active in the backend, one as a
 * rule, and the traffic around it, if there is any: the local queue, and what is heard of others.
 *
 * A tenure's life
 *
 *   IDLE ──turn──> CLAIMING ──granted──> HELD ──last release──> RELEASING ──answered──> ended
 *     ^              │   ^                 │                        └ passed on: the heir is HELD
 *     └─ left to ────┤   └─ woken ─ WAITING│ deadline or proof
 *        others      │ held elsewhere ─┘   └──────> LOST ──released as often as acquired──> ended
 *                    └ caller gone, outcome unknown ──> CLEANING ──released for sure──> ended
 *
 * What holds at all times
 *
 * - At most one tenure of a name is active (CLAIMING, WAITING, HELD, RELEASING), but for an heir,
 *   and but for those that claim for themselves: readers, who do not exclude each other, and the
 *   waiters of a fair lock, who stand in the backend's queue. A release whose answer nobody waits
 *   for is not active either: what is asked next comes behind it.
 * - Only an answered ACQUIRE, RENEW or PASS moves a deadline, and only to its own sending time plus
 *   the lease, less the drift.
 * - A tenure that is LOST stays so. Every operation that may have reached the backend without an
 *   answer is followed by a release of the same tenure until that was answered, or until its lease
 *   is over.
 * - After the grant nothing that has to happen fails for lack of memory: what a hold needs to be
 *   renewed or released (its motion) comes from a store that claims leave alone, and if that is
 *   empty, it is tried again after a while; the report of a loss is embedded in the tenure. */
#ifndef PAWL_CORE_MACHINE_H
#define PAWL_CORE_MACHINE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/wait.h"
#include "core/engine.h"

#include <stdatomic.h>

enum pawl__request_kind {
    PAWL__WANT_ACQUIRE,
    PAWL__WANT_RELEASE,
    PAWL__WANT_EXTEND,
    PAWL__WANT_INSPECT,
    PAWL__WANT_BREAK,
    PAWL__WANT_TALLY, /* of a semaphore or a latch; see tally.h */
    PAWL__WANT_RAISE  /* let the token counter be `token` at least */
};

/* Where a request waits, and so what its thread can best do meanwhile. */
enum pawl__phase {
    PAWL__QUEUED,   /* behind another caller of this process */
    PAWL__ASKING,   /* for the answer to an operation */
    PAWL__LISTENING /* for a wake-up of the name */
};

/* Why a hold was lost, as far as it can be known here. */
enum pawl__loss {
    PAWL__LOSS_DEADLINE, /* its time is over; told apart below */
    PAWL__LOSS_LEASE,    /* ... that of a fixed lease */
    PAWL__LOSS_LIMIT,    /* ... the longest that its handle allows */
    PAWL__LOSS_SILENCE,  /* ... for no renewal was answered in time */
    PAWL__LOSS_PAUSE,    /* ... for none was even sent: this process did not run, */
    PAWL__LOSS_MEMORY,   /* ... or there was no memory for it, */
    PAWL__LOSS_LINE,     /* ... or it was still in line */
    PAWL__LOSS_RELEASE,  /* ... when its release was answered */
    PAWL__LOSS_PROOF,    /* the backend says that another holds it, or nobody */
    PAWL__LOSS_OWNER     /* its thread has ended */
};

struct pawl__lost {
    enum pawl__loss why : 8;
    uint64_t before : 16;   /* LINE: so many renewals of others were out, or more */
    uint64_t lease_ms : 40; /* at most PAWL__LEASE_MS_MAX */
    int64_t at_us;          /* when its time was over, or when we heard */
    int64_t proven_us; /* when the last question was sent whose answer proved that it was ours */
};

/* How a finished request, or a notice about a tenure, goes to whoever calls the user back. */
struct pawl__delivery {
    struct pawl__list node;
    unsigned char kind;     /* the driver's */
    pawl_status status : 8; /* of a notice: PAWL_LOST, or PAWL_UNAVAILABLE: at risk; */
    bool queued;            /* it is on its way */
};

/* There are as many of these as callers that wait, so what one kind needs is where another has
 * something else. */
struct pawl__request {
    union {
        struct pawl__list node; /* in a name's queue, a tenure's extensions, or the machine's
                                   finished; then it is the driver's: */
        struct pawl__delivery delivery;
    };
    struct pawl__timer timer;
    enum pawl__request_kind kind : 8;
    enum pawl__phase phase : 8;
    pawl_status status : 8;
    bool finished;
    bool fresh;       /* its own call has not returned to the driver yet: needs no nudge */
    bool stood : 1;   /* in line behind another caller, before its turn came */
    bool settled : 1; /* it has failed, and would fail again */
    bool kept;        /* the driver's: see struct pawl__async */
    enum pawl__tally_verb verb : 8; /* tally: what is wanted, as in struct pawl__tally_ask */
    struct pawl__handle *handle;
    union {
        struct pawl__tenure *tenure; /* acquire, release, extend; NULL: in line */
        struct pawl__errand *errand; /* inspect, break, raise */
        struct pawl__tally *tally;   /* tally */
    };
    struct pawl__waiter *waiter;                 /* of a blocking caller; NULL: asynchronous */
    void (*hook)(struct pawl__request *request); /* the driver's: called when it has finished, with
                                                    no mutex held; NULL: the courier is */
    uint64_t owner;
    int64_t start_us;
    int64_t
        wait_us; /* acquire: when patience for the lock ends; == start_us: a try; NEVER: forever */
    int64_t end_us;   /* when it must have ended, answered or not */
    int64_t lease_us; /* extend, tally */
    union {
        struct {
            union {
                const _Atomic bool *stop; /* acquire: canceled before it began; NULL: never is */
                pawl_lock_info *info_out; /* inspect */
                uint64_t token;           /* raise */
                struct pawl__lost lost;   /* PAWL_LOST, which no tally is told: how */
            };
            struct pawl__party *party; /* acquire: with whom it is made; NULL: alone */
        };
        struct { /* tally */
            int64_t amount;
            const struct pawl__permit_id *ids; /* `amount` of them; copied */
            struct pawl__list *permits; /* to be kept alive if they are granted; or, when it gives
                                           them back, where those go that were kept alive; see
                                           leases.h */
            int64_t value;              /* what the backend answered */
        };
    };
    char *error; /* sentence that goes with status (PAWL_LOST: why nobody answered); freed by the
                    driver */
};

/* Acquire requests that are made together: all are granted or none is. They take their turns here
 * in the order of the list, and then they are one question to the backend. It belongs to whoever
 * makes the requests, who sets `requests` and `count`, all else is zero, and keeps it until all
 * have finished. party.c tells the rest. */
struct pawl__party {
    struct pawl__request **requests; /* 2 to PAWL__JOINT_MAX, of one client and different names */
    size_t count;
    struct pawl__list node;        /* in the machine's parties */
    struct pawl__party *next;      /* among those to look at when this step is over */
    struct pawl__request *speaker; /* whom the others wait for; NULL: for the answers */
    size_t arrived;                /* so many have been started, */
    size_t joined;                 /* and of these so many have asked for their turns */
    size_t finished;
    size_t out;                          /* answers that are to come */
    pawl_status status;                  /* what it ended with, */
    const struct pawl__request *culprit; /* and because of whom */
    bool over;                           /* one has failed, so all have */
    bool moving;                         /* turns are being taken just now */
    bool asked;                          /* and not judged yet */
    bool listed;                         /* to be looked at */
};

/* NULL: it is made alone. */
static inline struct pawl__party *pawl__request_party(const struct pawl__request *request)
{
    return request->kind == PAWL__WANT_ACQUIRE ? request->party : NULL;
}

/* It has ended only because another one of its party did. */
static inline bool pawl__request_spared(const struct pawl__request *request)
{
    const struct pawl__party *party = pawl__request_party(request);
    return party != NULL && request->status != PAWL_OK && party->culprit != request;
}

/* What the user chose for a handle, in microseconds. Handles that chose the same share it, and
 * while they have it, it does not change. */
struct pawl__terms {
    pawl_kind kind;
    unsigned handoff; /* so often it goes to the next here without a word to the backend */
    bool reentry;
    bool renew;
    bool unawaited;
    int64_t lease_us;
    int64_t max_hold_us; /* 0: no limit */
    int64_t warn_us;
    pawl_event_callback on_risk; /* the driver's, */
    pawl_event_callback on_lost;
    struct pawl__list node; /* and so is this, see terms.c */
    _Atomic unsigned users;
};

/* What only few handles have. */
struct pawl__extra {
    struct pawl__leases *leases; /* of a semaphore: permits that it renews; NULL: it does not */
    uint64_t through_id;    /* the tenure last entered through this handle that began elsewhere, */
    uint64_t through_owner; /* whose it was then, */
    unsigned through_count; /* and how often without a release yet */
    void *event_arg;        /* the driver's, as the rest: for on_risk and on_lost */
    struct pawl_lock *stands_for;          /* whose callbacks are called for it; NULL: its own */
    void (*nudge)(struct pawl_lock *lock); /* of a part of a composite: instead of on_risk and
                                              on_lost, with the client's mutex held; NULL: none */
};

/* The machine's part of a lock handle. There are many of them, and most are at rest. */
struct pawl__handle {
    struct pawl__name *name;
    struct pawl__list node;    /* in its name's handles */
    struct pawl__terms *terms; /* set by the driver */
    struct pawl__extra *extra; /* NULL: it needs none so far; freed by the driver */
    uint64_t owner;            /* of a PAWL_OWNER_HANDLE; 0: the threads are owners */
    unsigned tenures;          /* that began through this handle and exist still */
    bool closed;               /* the driver's: its waits end at once */
    bool detached;             /* closed for good: its name is not to be used any more */
};

enum pawl__tenure_state {
    PAWL__TENURE_IDLE,
    PAWL__TENURE_CLAIMING,
    PAWL__TENURE_WAITING,
    PAWL__TENURE_HELD,
    PAWL__TENURE_RELEASING,
    PAWL__TENURE_LOST,
    PAWL__TENURE_CLEANING,
    PAWL__TENURE_ENDED
};

/* What a tenure needs while something is under way: an operation is with the engine, or somebody
 * waits for one, or a claim is not granted yet. A hold at rest has none, so that many holds take
 * little memory: it has pawl__at_rest instead, in which there is nothing, and which nobody may
 * write to. */
struct pawl__motion {
    struct pawl__op main;        /* acquire, release, pass */
    struct pawl__op side;        /* renew, verify, count */
    struct pawl__list extends;   /* requests for the next renewal */
    struct pawl__list extending; /* requests that the current renewal serves */
    struct pawl__delivery risk;  /* the notice */
    struct pawl__tenure *heir;   /* RELEASING by pass: who gets it */
    struct pawl__tenure *giver;  /* CLAIMING as the heir of this one: asks nothing itself */
    struct pawl__ear *ear;       /* FAIR: hears when it is its turn */
    uint64_t wakes;              /* WAITING: the name's wakes when we last asked */
    int64_t copy_us;             /* when the last copy of an acquire or pass was sent */
    int64_t late_us;             /* when the first grant came too late */
    unsigned late;               /* CLAIMING, WAITING: grants that came when their time was over */
    unsigned turns;              /* SPIN, PLAIN: answers that it is held, for the pause */
    struct pawl__motion *next;   /* while it is spare */
    struct pawl__timer renewal;  /* HELD: in line to be renewed or verified, by its deadline */
};

extern struct pawl__motion pawl__at_rest;

#define PAWL__MOTIONS_KEPT 8

struct pawl__tenure {
    struct pawl__list node; /* in its name's crowd, or while it is HELD or LOST in its holds */
    struct pawl__list all;  /* in the machine's tenures, or in its ended ones */
    struct pawl__name *name;
    struct pawl__handle *handle;   /* first acquired through; NULL once that is closed */
    struct pawl__request *request; /* that claims or releases; NULL: nobody waits for it */
    struct pawl__motion *motion;   /* pawl__at_rest: none */
    uint64_t id;
    uint64_t owner;
    uint64_t token;
    int64_t lease_us;
    int64_t deadline_us; /* until when we surely hold */
    int64_t until_us;    /* HELD: extended until here at least; later: it is in the backend until
                            here at most */
    int64_t limit_us;    /* never beyond: acquired + max hold */
    int64_t proven_us;   /* when the last question was sent whose answer proved that it is ours */
    union {
        int64_t renew_us; /* HELD: the next renewal */
        int64_t lost_us;  /* else, if it was lost: when its time was over, or when we heard */
    };
    struct pawl__timer timer;
    struct pawl__delivery lost; /* the notice */
    unsigned count;             /* acquired and not yet released, */
    unsigned reads;             /* SHARED: and for reading */
    unsigned firsts;            /* ... and through its first handle */
    union {
        unsigned shown;  /* the count that the backend shows */
        unsigned before; /* LOST in line: so many others were out */
    };
    uint16_t attempt;      /* tries since the last answer, for the back-off */
    uint16_t handed;       /* so often this hold has changed hands here, */
    uint16_t spare_tokens; /* and so many tokens are left for that */
    enum pawl__tenure_state state : 8;
    pawl_kind kind : 8;      /* what it is in the backend, or shall be */
    enum pawl__loss why : 8; /* it was lost */
    bool renew : 1;
    bool main_out : 1;  /* main is with the engine */
    bool side_out : 1;  /* side is with the engine, or in line */
    bool doubt : 1;     /* a copy of an acquire or pass is about whose end we do not know */
    bool repeated : 1;  /* a copy of the release ended unknown */
    bool granted : 1;   /* the backend has given it the lock and has not said that it is gone */
    bool lined : 1;     /* FAIR: it has asked for a place in the backend's queue, */
    bool queued : 1;    /* and may stand there */
    bool downgrade : 1; /* SHARED: the backend has yet to be told that it only reads now */
    bool look : 1;      /* verify it as soon as side is free */
    bool at_risk : 1;   /* told so since the last good renewal */
    bool asked : 1;     /* for a renewal, since it was last proven, */
    bool starved : 1;   /* or there was no memory to ask */
    bool trial : 1;     /* held for a set that is not complete yet: nobody is told of its loss */
};

/* Which tenure a notice is about. Its handle is told, if that has not been closed meanwhile. */
static inline struct pawl__tenure *pawl__notice_tenure(struct pawl__delivery *notice)
{
    return notice->status == PAWL_LOST
               ? PAWL__CONTAINER(notice, struct pawl__tenure, lost)
               : PAWL__CONTAINER(notice, struct pawl__motion, risk)->main.core;
}

/* How often it was acquired through handles of this kind: a writer may read as well. */
static inline unsigned pawl__tenure_count(const struct pawl__tenure *tenure, pawl_kind kind)
{
    return kind == PAWL_READ ? tenure->reads : tenure->count - tenure->reads;
}

enum pawl__watch { PAWL__UNWATCHED, PAWL__WATCH_ASKED, PAWL__WATCHED, PAWL__WATCH_ENDING };

/* What is going on around a name beyond one caller who has the lock, or asks for it: who waits
 * here, what is heard of others, and that the backend is silent. Most names never need it. What one
 * caller reads comes first. */
struct pawl__traffic {
    struct pawl__traffic *own; /* itself; NULL: it is pawl__nobody, which is not to be changed */
    struct pawl__list queue;   /* acquire requests waiting for their turn, oldest first */
    unsigned tries;            /* tries among them */
    unsigned twins;          /* among them, of handles that are owners: one owner may queue twice */
    struct pawl__list crowd; /* claims that do not exclude each other here: CLAIMING, WAITING */
    enum pawl__watch watch;
    bool watch_refused;        /* asking again would not help */
    bool deaf_once;            /* the next wake-up is the echo of our own release */
    bool mixed;                /* the backend calls the crowd in another order than it came */
    uint64_t wakes;            /* wake-ups heard so far */
    struct pawl__name *name;   /* whose it is */
    struct pawl__op *watch_op; /* NULL: it never was */
    int64_t hold_off_us;       /* left to others until then, */
    int64_t turn_us;           /* and until then as long as they go on taking and releasing it */
    int64_t idle_us;           /* watched, but nobody has needed it since; NEVER: needed */
    int64_t silent_us;         /* no answer since; NEVER: not silent */
    char *error;               /* why it is silent */
    struct pawl__timer timer;  /* end of the hold-off, or of a watch that nobody needs */
    struct pawl__list tally_queue;  /* those that wait for a wake-up, oldest first; see tally.h */
    struct pawl__list tally_spares; /* those that have ended */
};

/* The traffic of all names that have none: empty lists, and what holds if nothing was ever noted.
 * It is in memory that cannot be written. */
extern const struct pawl__traffic pawl__nobody;

/* There are many of these; the engine's place and the text follow in the same piece of memory. */
struct pawl__name {
    struct pawl__map_node node;          /* its key is the name itself */
    struct pawl__name *next;             /* in the machine's touched or dead names */
    struct pawl__list *handles;          /* one of the open ones, which are a ring; NULL: none is */
    struct pawl__tenure *active;         /* NULL: none */
    struct pawl__list holds;             /* what owners have: HELD and LOST */
    const struct pawl__traffic *traffic; /* read here, written through its `own` */
    int64_t answered_us;                 /* the last answer about this name */
    int64_t chain_us;                    /* since when we keep it to ourselves */
    _Atomic unsigned keepers; /* the driver's: locks that need the text, and 1 until it is dead */
    unsigned uses;        /* tenures, errands, ears and tallies that exist, whatever their state */
    bool opened;          /* the driver's: the engine has opened the place, */
    atomic_bool checked;  /* and somebody has asked it whether that can work */
    unsigned char passes; /* since others were last offered a turn, up to PAWL__PASSES_MAX */
    bool touched : 1;
    bool kept : 1;      /* it changed hands here: the next release offers it to others */
    bool chained : 1;   /* the next grant goes on with our turn, unless others come between */
    bool contended : 1; /* others heard of our last release */
};

static inline struct pawl__place *pawl__name_place(struct pawl__name *name)
{
    return (struct pawl__place *)(void *)(name + 1);
}

static inline enum pawl__family pawl__name_family(const struct pawl__name *name)
{
    return ((const struct pawl__place *)(const void *)(name + 1))->family;
}

struct pawl__machine {
    /* Set by the driver before the first call. */
    const struct pawl__engine *engine; /* only its abilities are read here */
    int64_t timeout_us;
    int64_t give_up_us;
    unsigned motions_kept;   /* for holds, whatever claims take: PAWL__MOTIONS_KEPT */
    unsigned renewals_least; /* that may be out at a time; 0: as many as usual */
    struct pawl__random random;
    void (*nudge)(struct pawl__request *request); /* its phase changed; NULL: nobody cares */

    /* Outputs, emptied by the driver. */
    struct pawl__op *ops; /* to submit, in order */
    struct pawl__op **ops_end;
    struct pawl__list finished; /* requests: status and error are set */
    struct pawl__list notices;  /* give back with pawl__machine_notice_done() */
    struct pawl__name *dead;    /* names that nobody needs but locks that are closed later */
    bool hear;                  /* lazy operations are out for long: see engine.h */

    /* The machine's own. */
    struct pawl__map names;
    struct pawl__heap timers;
    struct pawl__list tenures;
    struct pawl__list ended;  /* tenures to free when this step is over */
    struct pawl__list spares; /* a few freed tenures, for those to come */
    unsigned spare_count;
    struct pawl__motion *motions; /* spare ones */
    unsigned motion_count;
    struct pawl__list ears;
    struct pawl__list parties;
    struct pawl__list tallies;
    struct pawl__list leases;   /* of permits that are renewed, by handle */
    struct pawl__name *touched; /* names to look at when this step is over */
    struct pawl__name **touched_end;
    struct pawl__party *restless; /* parties, the same */
    uint64_t next_id;
    unsigned pending;                  /* operations with the engine */
    unsigned unheard;                  /* what ended without an answer; reset by the driver */
    int64_t rtt_us;                    /* smoothed */
    struct pawl__heap renewals;        /* holds in line to be renewed or verified; renewals.c */
    struct pawl__timer renewals_timer; /* the next of them may be sent */
    unsigned renewals_out;             /* with the engine, */
    unsigned renewals_most;            /* and so many may be */
};

/* ===== What drivers call, under their mutex ===== */

bool pawl__machine_init(struct pawl__machine *machine);
void pawl__machine_fini(struct pawl__machine *machine);

/* The name's record, made with its place (of engine->place_size bytes) if it is new. `fresh_out`
 * says that the driver has yet to open the place. NULL: no memory. It may be of another family than
 * asked for, and is not to be used then. Otherwise a handle must be attached to it before the next
 * call. */
struct pawl__name *pawl__machine_name(struct pawl__machine *machine, const char *name,
    size_t name_size, enum pawl__family family, bool *fresh_out);

/* The family of a kind of lock; and "a mutex" */
enum pawl__family pawl__family_of(pawl_kind kind);
const char *pawl__family_word(enum pawl__family family);

void pawl__handle_attach(struct pawl__handle *handle, struct pawl__name *name);

/* What few handles have, made if it has none so far. NULL: no memory. */
struct pawl__extra *pawl__handle_extra(struct pawl__handle *handle);

/* For a close: no handle is to be used any more, and all waits end. */
void pawl__machine_expel(struct pawl__machine *machine, int64_t now_us);

/* Detach for good: ends its waits, forgets it in every hold. What it holds must have been released
 * before. */
void pawl__handle_detach(
    struct pawl__machine *machine, struct pawl__handle *handle, int64_t now_us);

/* Everything ends here, without a word to the backend: all names become dead. Nothing is pending,
 * and no notice is under way. Handles that are still attached must not be used again. */
void pawl__machine_abolish(struct pawl__machine *machine);

/* A dead name that was taken from the outputs, after its place was closed. */
void pawl__name_free(struct pawl__name *name);

/* Start a request. kind, handle, owner, start_us, wait_us, end_us, lease_us or info_out, waiter are
 * set; the rest is zero. It may be among the finished at once. */
void pawl__machine_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);

/* An operation came back from the engine. */
void pawl__machine_complete(struct pawl__machine *machine, struct pawl__op *op, int64_t now_us);

/* Time has come to the first timer's due time, or beyond. */
void pawl__machine_tick(struct pawl__machine *machine, int64_t now_us);
int64_t pawl__machine_due(const struct pawl__machine *machine); /* NEVER: no timer is armed */

/* Whether the first timer is served by a blocking caller itself: when its own wait for the lock, or
 * for the next look at it, ends. */
bool pawl__machine_served(const struct pawl__machine *machine);

/* Until when a blocking caller of this request may sleep before it has to tick. */
int64_t pawl__request_due(const struct pawl__request *request);

/* Whose phase says what the caller of this request, and of all of its party, waits for. */
struct pawl__request *pawl__request_voice(struct pawl__request *request);

/* Nothing is held, asked or to be taken back. */
bool pawl__machine_idle(const struct pawl__machine *machine);

/* What may be left at the backend of what has ended without an answer, or has not ended yet. */
enum {
    PAWL__UNHEARD_RELEASE = 1, /* of a hold; otherwise of what an unanswered acquire may have got */
    PAWL__UNHEARD_LEASE = 2,   /* something that ends with its lease */
    PAWL__UNHEARD_PERMITS = 4, /* permits without one */
    PAWL__UNHEARD_LATCH = 8,   /* one count too many */
};
unsigned pawl__machine_unheard(const struct pawl__machine *machine);

/* For a close: release everything that is held, with nobody waiting for it. */
void pawl__machine_release_all(struct pawl__machine *machine, int64_t now_us);

/* The name may be free (NULL: any may), this tenure is lost, the backend is back: as the host of
 * engine.h. */
void pawl__machine_wake(
    struct pawl__machine *machine, const char *name, size_t name_size, uint64_t id, int64_t now_us);
void pawl__machine_lost(
    struct pawl__machine *machine, const char *name, size_t name_size, uint64_t id, int64_t now_us);
void pawl__machine_reconnected(struct pawl__machine *machine, int64_t now_us);

/* Its caller waits no longer: it finishes now, as it would when its time is up. What it asked goes
 * on without it, or is taken back. */
void pawl__machine_expire(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);

/* End the handle's waits with PAWL_CANCELED. */
void pawl__machine_cancel(
    struct pawl__machine *machine, struct pawl__handle *handle, int64_t now_us);

/* This owner will never call again: its thread has ended. */
void pawl__machine_owner_gone(struct pawl__machine *machine, uint64_t owner, int64_t now_us);

/* The owner's hold on the handle's name, judged by the clock: HELD (and valid now) or LOST; NULL:
 * none. */
struct pawl__tenure *pawl__machine_find(struct pawl__machine *machine,
    const struct pawl__handle *handle, uint64_t owner, int64_t now_us);

/* The set for which a multi-lock's handle has got it is complete: its loss is told of from now on.
 */
void pawl__machine_confirm(struct pawl__machine *machine, struct pawl__tenure *tenure);

/* Whether the tenure was acquired through this handle more often than released. */
bool pawl__handle_holds(const struct pawl__handle *handle, const struct pawl__tenure *tenure);

/* The owner of what was acquired through this handle and not yet released; 0: nothing. */
uint64_t pawl__handle_holder(const struct pawl__handle *handle);

/* The callback has been called (or dropped). */
void pawl__machine_notice_done(
    struct pawl__machine *machine, struct pawl__delivery *notice, int64_t now_us);

#endif
