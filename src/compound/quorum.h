/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock: one lock that a majority of independent servers keeps.
 *
 * A quorum lock is made of one ordinary lock for each client, its *nodes*. They are owned by their
 * handles, renew themselves, are cleaned up by their own machines, and count their own validity
 * from before the question was sent. What is left to do here: ask all of them at once, decide at
 * the majority, and know until when a majority holds, which is the majority-th largest of their
 * deadlines.
 *
 *   quorum_vote.c    arithmetic: majorities, deadlines, pauses
 *   quorum_panel.c   asking all nodes the same, and waiting for as many answers as it takes
 *   quorum_round.c   what is asked: to grant, to raise the token, to let go, to extend
 *   quorum_parts.c   which of the nodes' grants count for a hold, and since when
 *   quorum_call.c    the calls: who holds, who re-enters, who is next in this process
 *   quorum_worker.c  the thread that watches over a hold, heals it, and calls back
 *   quorum_async.c   asynchronous calls, and the thread that runs them
 *   quorum_guard.c   servers that have restarted, or whose clock jumped, and must not vote yet
 *   quorum_review.c  what is found out of servers that were not met before
 *   quorum_clock.c   arithmetic: has a server's clock jumped?
 *   quorum_text.c    which node said what
 *   quorum_survey.c  for operators: inspect and break
 *   quorum.c         opening and closing
 *
 * Who may do what. One caller at a time has the *turn*: it alone uses the main panel. A caller that
 * waits for an answer reads for all nodes itself, so that an acquire takes one round trip and no
 * change of threads. Mutexes, in the order in which they are taken: the quorum's, a client's, a
 * panel's; the guard's between the first two. */
#ifndef PAWL_COMPOUND_QUORUM_H
#define PAWL_COMPOUND_QUORUM_H

#include "base/list.h"
#include "base/random.h"
#include "base/wait.h"
#include "compound/quorum_clock.h"
#include "compound/quorum_vote.h"
#include "core/client.h"

/* One question to one node, and its answer. */
struct pawl__ballot {
    struct pawl__request request;
    struct pawl__panel *panel;
    struct pawl__node *node;
    bool out;     /* with the node; guarded by the panel's mutex */
    bool lent;    /* inside the client: it cannot be closed meanwhile */
    bool claims;  /* it is asked for the lock; known here while the request is the client's */
    bool nudges;  /* its answer has the worker look */
    bool pending; /* it has granted it, but is still being looked at: the vote is open */
    bool apart;   /* what was asked is no part of the hold: its vote is no, whatever it says */
    bool aside;   /* left out of a vote about something else */
    int64_t asked_us;
    enum pawl__vote vote;
    uint64_t token; /* of a grant */
    pawl_lock_info info;
    char *trouble; /* the fault that the last answer was; NULL: it was none */
};

struct pawl__panel {
    pthread_mutex_t mutex;
    struct pawl__waiter waiter; /* of the caller that asks */
    int wake_fd;
    int64_t expired_us; /* the deadline of the last wait, if it came too soon; 0: it did not */
    size_t count;
    struct pawl__ballot *ballots;
};

/* What is known of a server's clock; more than one run of it has the same. */
struct pawl__standing_clock {
    struct pawl__offset offset;       /* how far it is ahead of ours */
    struct pawl__clock_sample newest; /* look that this goes by */
    int64_t looked_us;                /* when the last acquire that told was answered */
    int64_t jumped_us;                /* when it was found to have jumped; 0: it was not */
    int64_t by_us;                    /* by so much; 0: nobody knows */
    const struct pawl__node *rival; /* or this one's has, nobody can tell; NULL: it was this one */
    bool untold;                    /* we have seen that, and the other servers do not know yet */
};

/* What is known of a run of a server. Guarded by the guard's mutex. */
struct pawl__standing {
    char run_id[PAWL__IDENTITY_SIZE];
    bool reviewed;    /* the rest is known for this run */
    bool durable;     /* it forgets nothing when it restarts; for sentences */
    int64_t votes_us; /* not before */
    bool replica;
    bool told;    /* the user was warned */
    uint64_t met; /* its place in the order in which runs were met; 0: none was */
    struct pawl__standing_clock clock;
};

struct pawl__node {
    struct pawl__quorum *quorum;
    struct pawl_client *client;
    struct pawl_lock *lock;
    char where[80]; /* for sentences */
    struct pawl__standing standing;
    _Atomic uint64_t counted_id; /* the tenure that the guard lets count */
    _Atomic uint64_t part_id;    /* the tenure that is part of the hold; 0: none */
    _Atomic int64_t granted_us;  /* when the last acquire was answered; NEVER: not yet */
    _Atomic bool answers;        /* it was */
    uint64_t newcomer_id;        /* a tenure that is none yet; guarded by the quorum's mutex, */
    int64_t newcomer_us;         /* since when it is known, */
    unsigned missed;             /* how often a hold was seen without it since it was last well, */
    bool missed_told;            /* and whether that was told */
};

/* One owner's time with the lock. */
struct pawl__quorum_hold {
    struct pawl__list node; /* among the lost ones */
    uint64_t owner;
    uint64_t token;
    unsigned count;
    bool lost;
    bool at_risk;     /* told so since it was last out of danger */
    bool tell_lost;   /* on_lost is due */
    bool telling;     /* the worker uses it */
    bool leaving;     /* an asynchronous call that releases it is queued */
    bool done;        /* released for the last time; whoever uses it frees it */
    int64_t until_us; /* valid until then, when it was last looked at */
    int64_t limit_us; /* never beyond: acquired + max hold */
    int64_t lost_us;  /* when its time was over */
    char why[400];    /* which node said what then */
};

/* An acquire, as it was meant when it began. */
struct pawl__quorum_wish {
    uint64_t owner;
    int64_t start_us;
    int64_t wait_us; /* 0: a try; PAWL__NEVER: for ever */
    int64_t end_us;
    uint64_t wave;    /* of cancellations */
    int64_t limit_us; /* when the call ends at the latest */
};

/* An asynchronous call. */
struct pawl__quorum_async {
    struct pawl__list node;
    enum pawl__request_kind kind;
    struct pawl__quorum_wish wish;
    pawl_callback done;
    void *arg;
    pawl_status status; /* once it has ended */
    char *error;
};

struct pawl__quorum {
    union {
        struct pawl_lock lock; /* first: it is freed with it */
        struct pawl__compound compound;
    };
    char *name;
    pawl_event_callback on_risk;
    pawl_event_callback on_lost;
    void *event_arg;
    size_t count;
    struct pawl__node *nodes;
    int64_t lease_us;
    int64_t node_timeout_us;
    int64_t max_lease_us;
    int64_t max_hold_us; /* 0: no limit */
    int64_t timeout_us;  /* the longest of the clients' */
    int64_t give_up_us;
    int64_t risk_us; /* less left than this, and a renewed hold is in danger */
    bool reentry;
    bool renew;
    bool unawaited;
    pawl_guard guard;
    struct pawl__registered registered; /* to be told of threads that end */
    struct pawl__panel panel;           /* used by who has the turn */

    pthread_mutex_t mutex;
    pthread_cond_t left; /* a call has left; the worker has finished with a hold */
    /* Guarded by the mutex. */
    unsigned calls;
    bool closed;
    bool turn_taken;
    bool contended;          /* by whoever has it, for a new hold */
    bool swept;              /* nothing of an old hold is left at the nodes */
    struct pawl__list queue; /* callers of this process that want the turn, oldest first */
    uint64_t wave;           /* counts cancellations */
    uint64_t asking;         /* the handle's own acquires under way */
    struct pawl__quorum_hold *held;
    int64_t began_us;       /* it */
    int64_t safe_us;        /* so long it is in no danger; later than its end if max_hold is that */
    int64_t doubt_us;       /* all of its parts are to be proven since then; 0: no doubt */
    struct pawl__list lost; /* holds that their owners have yet to release */
    struct pawl__random random;
    int64_t heard_us;    /* when a majority last answered, or a hold last ended */
    pawl_status verdict; /* of the last claim */
    bool hopeless;       /* it need not be made again; whoever has the turn needs no mutex */
    char why[1600];      /* what it said if it was neither granted nor busy */

    /* The worker's. */
    pthread_t worker;
    bool worker_started;
    bool worker_stopping;
    struct pawl__waiter alarm; /* something to look at */
    struct pawl__list ended;   /* asynchronous calls whose callbacks are due */
    int64_t look_us;           /* when it will look by itself */
    int64_t heal_us;           /* when to ask again for what is missing; never for a fixed lease */

    /* The runner's. */
    pthread_t runner;
    bool runner_started;
    bool runner_stopping;
    struct pawl__waiter bell; /* something to run */
    struct pawl__list asyncs; /* asynchronous calls that are to be run, oldest first */
    bool acquiring;           /* it runs one that acquires */

    pthread_mutex_t guard_mutex;
    /* Guarded by it. */
    uint64_t met; /* runs of servers so far */
    pthread_t reviewer;
    bool reviewer_started;
    bool reviewing;
    bool review_ended; /* no more */
};

static inline struct pawl__quorum *pawl__quorum_of(struct pawl_lock *lock)
{
    return PAWL__CONTAINER(lock, struct pawl__quorum, lock);
}

/* quorum.c. Arguments and options were checked, as far as one lock's are. Sets the last error. */
pawl_status pawl__quorum_open(struct pawl_client *const clients[], size_t count, const char *name,
    const pawl_lock_options *options, struct pawl_lock **lock_out);

/* quorum_panel.c */

/* False: no memory or descriptor. */
bool pawl__panel_init(struct pawl__panel *panel, struct pawl__quorum *quorum);
void pawl__panel_fini(struct pawl__panel *panel);

/* Forget the last round; nothing is out. */
void pawl__panel_begin(struct pawl__panel *panel);

/* Ask one node; kind says what, in a request that is otherwise prepared here. The vote is OPEN
 * until its answer is judged by pawl__panel_judge(). */
void pawl__ballot_ask(struct pawl__ballot *ballot, enum pawl__request_kind kind, int64_t number);
bool pawl__ballot_is_out(struct pawl__ballot *ballot);

/* For sentences: what is to be said of a node that was not asked. */
void pawl__ballot_note(struct pawl__ballot *ballot, pawl_status status);

/* End it if it is still out. What was asked goes on without us, or is taken back. */
void pawl__ballot_expire(struct pawl__ballot *ballot);
void pawl__panel_expire(struct pawl__panel *panel);

enum pawl__patience {
    PAWL__FOR_VERDICT, /* until the panel is decided */
    PAWL__FOR_REASON,  /* and, if it has fallen, until it is known why */
    PAWL__FOR_ALL      /* until all have answered */
};

/* Read for so long, or until the deadline has come. */
enum pawl__verdict_now pawl__panel_wait(
    struct pawl__panel *panel, enum pawl__patience patience, int64_t deadline_us);

/* Why a claim has fallen; `stands_out`: what is still out cannot change it. */
enum pawl__reason pawl__panel_reason(const struct pawl__panel *panel, bool *stands_out);

/* Turn what was answered into votes; `open_out`: something is still out. */
enum pawl__verdict_now pawl__panel_judge(struct pawl__panel *panel, bool *open_out);

/* It is undecided, but only because servers that have granted it are still being looked at. */
bool pawl__panel_is_pending(const struct pawl__panel *panel);

/* Let go of the clients. What is still out goes on in the background. */
void pawl__panel_end(struct pawl__panel *panel);

/* The votes as they are. */
void pawl__panel_votes(const struct pawl__panel *panel, enum pawl__vote votes[PAWL__QUORUM_MAX]);

/* One node's hold by the clock. False: none; *lost_out: one that is lost has to be released. */
struct pawl__node_hold {
    int64_t deadline_us;
    int64_t proven_us; /* it was there at that time, or later */
    uint64_t token;
    uint64_t id;
    bool final; /* it cannot last longer anyway: by max_hold */
};
bool pawl__node_look(struct pawl__node *node, struct pawl__node_hold *hold_out, bool *lost_out);

/* Its owner is no more: it is not renewed, and its lease runs out. */
void pawl__node_abandon(struct pawl__node *node);

/* quorum_round.c; the caller has the turn. */

/* Ask all for the lock, once, until node_timeout is over or the limit has come. OK: a majority has
 * granted it with this token. Otherwise everything is taken back, and the last error says who said
 * what. */
pawl_status pawl__round_claim(struct pawl__quorum *quorum, int64_t limit_us, uint64_t *token_out);

/* Let go of everything. `awaited`: until a majority has answered. */
pawl_status pawl__round_let_go(struct pawl__quorum *quorum, uint64_t token, bool awaited);

pawl_status pawl__round_extend(struct pawl__quorum *quorum, int64_t lease_us);

/* Nothing of an older hold is left at any node afterwards, or its release is under way. */
void pawl__round_sweep(struct pawl__quorum *quorum);

/* Ask those for it that do not have it, without waiting. Mutex held. */
void pawl__round_heal(struct pawl__quorum *quorum);

/* quorum_parts.c; mutex held. */

/* A majority has granted it: what is held at the nodes now are the parts of the hold. */
void pawl__parts_begin(struct pawl__quorum *quorum, int64_t now_us);

/* Until when a majority of the parts holds; 0: none does. Says also how long that is in no danger.
 */
int64_t pawl__parts_until(struct pawl__quorum *quorum);

/* Have all parts proven that were not since the last doubt, without waiting. Nobody has the turn.
 */
void pawl__parts_confirm(struct pawl__quorum *quorum);

/* Whether this tenure is a part. The mutex need not be held. */
bool pawl__part_is(const struct pawl__node *node, uint64_t id);

/* quorum_call.c */

/* Judge the hold by the clock. Mutex held. Answers until when it is valid; 0: nothing is held. */
int64_t pawl__quorum_judge(struct pawl__quorum *quorum, int64_t now_us);

/* Each sets the last error. */
pawl_status pawl__quorum_acquire(struct pawl__quorum *quorum, const struct pawl__quorum_wish *wish);
pawl_status pawl__quorum_release(struct pawl__quorum *quorum, uint64_t owner);
pawl_status pawl__quorum_extend(struct pawl__quorum *quorum, uint64_t owner, int64_t lease_us);

/* An asynchronous call is judged when it is made. True: it needs no server, and has ended with this
 * status. False: it is to be run. Mutex held; `asked`: another one that acquires is to be run. */
bool pawl__quorum_at_once(
    struct pawl__quorum *quorum, struct pawl__quorum_async *async, bool asked);

/* A release that was judged before: it ends no later hold. */
pawl_status pawl__quorum_release_leaving(struct pawl__quorum *quorum, uint64_t owner);

bool pawl__quorum_look(struct pawl__quorum *quorum, uint64_t owner, struct pawl__hold *hold_out);
void pawl__quorum_cancel(struct pawl__quorum *quorum);
void pawl__quorum_owner_gone(struct pawl__quorum *quorum, uint64_t owner);

/* quorum_survey.c */
pawl_status pawl__quorum_inspect(
    struct pawl__quorum *quorum, uint64_t owner, pawl_lock_info *info_out);
pawl_status pawl__quorum_break(struct pawl__quorum *quorum);

/* quorum_worker.c; mutex held. */

/* Have it look by then at the latest; starts it if need be. False: it cannot be started. */
bool pawl__worker_wake(struct pawl__quorum *quorum, int64_t by_us);
void pawl__worker_stop(struct pawl__quorum *quorum); /* mutex not held */

/* quorum_async.c; mutex not held. */

/* It is called back unless this is false: no memory or thread for it. */
bool pawl__async_start(struct pawl__quorum *quorum, struct pawl__quorum_async *async);
void pawl__async_stop(struct pawl__quorum *quorum); /* runs what is still queued */

/* Its callback, and its end. */
void pawl__async_deliver(struct pawl__quorum *quorum, struct pawl__quorum_async *async);

/* quorum_guard.c; the quorum's mutex may be held, a client's not. */

enum pawl__admission {
    PAWL__ADMITTED,
    PAWL__IN_REVIEW, /* it is being looked at; the panel's waiter is nudged when that is done */
    PAWL__BARRED
};

/* May this node vote now? Never waits. */
enum pawl__admission pawl__guard_admits(struct pawl__node *node);

/* Does this tenure of the node count? It does from when on the node was found fit to vote. */
enum pawl__admission pawl__guard_counts(struct pawl__node *node, uint64_t id);

/* It is the same server as another one that was met before it. */
bool pawl__guard_is_twin(struct pawl__node *node);

/* Why a node does not vote, and what who wants the lock can do about it, if that is asked for.
 * False: it never will, and the user was told so. */
bool pawl__guard_describe(const struct pawl__node *node, bool advise, char *out, size_t size);

void pawl__guard_stop(struct pawl__quorum *quorum);

/* Who the server of this node is. False: not known. */
bool pawl__guard_identify(
    const struct pawl__node *node, struct pawl__server_identity *identity_out);

/* The rest with the guard's mutex held. */

void pawl__guard_meet(struct pawl__node *node, const struct pawl__server_identity *identity);

/* Another node that is the same server, and was met before this one, which therefore has no vote.
 * NULL: there is none. */
const struct pawl__node *pawl__guard_twin(const struct pawl__node *node);

/* A look at its clock, which shows a jump or makes it better known. */
void pawl__guard_watch_clock(
    struct pawl__node *node, const struct pawl__clock_sample *sample, bool aside);

/* Its clock has jumped, which was found then: it does not vote until leases from before are over.
 * by_us 0: nobody knows by how much. `rival`: or the clock of that one; NULL: no other. */
void pawl__guard_bar(
    struct pawl__node *node, int64_t jumped_us, int64_t by_us, const struct pawl__node *rival);

/* quorum_review.c; no mutex held. */

/* Look at all servers that have been started since the last time, and at jumps that the others do
 * not know of. WAITS. Sets the last error if they make no quorum. */
pawl_status pawl__guard_review(struct pawl__quorum *quorum);

/* quorum_text.c; each sets the last error and answers the status. */
pawl_status pawl__quorum_fail_votes(const struct pawl__quorum *quorum,
    const struct pawl__panel *panel, pawl_status status, const char *what);
pawl_status pawl__quorum_fail(
    const struct pawl__quorum *quorum, pawl_status status, const char *words);

/* So many refuse it for good that no majority is left: what the first of them says, and who. */
pawl_status pawl__quorum_fail_refused(
    const struct pawl__quorum *quorum, const struct pawl__panel *panel);

/* Tell the user that a hold stands on so many servers, and why this one is not among them; NULL: by
 * its answer. */
void pawl__quorum_warn_missing(struct pawl__ballot *ballot, size_t standing, const char *why);

/* How each node stands now. */
void pawl__quorum_describe(struct pawl__quorum *quorum, char *out, size_t size);

#endif
