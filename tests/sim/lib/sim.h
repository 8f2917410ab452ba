/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: many clients, each a pure machine (core/machine.h), against one backend, the
 * memory engine's table, in virtual time. Everything that happens follows from one seed.
 *
 *   plan.c      what the seed makes of a run: sizes, times, and which kinds of fault there are
 *   queue.c     events in the order of virtual time, and the clients' clocks
 *   run.c       one run from the first event to the last, and the healing at its end
 *   faults.c    what goes wrong, and when
 *   backend.c   the table, judged by a second opinion on every operation that it carries out,
 *   opinion.c   which is this, on what is seen there before and after (picture.c)
 *   net.c       the way between machine and backend: late, lost, cut, doubled
 *   client.c    the driver of one machine: what client.c of the library is in real life
 *   actor.c     the callers: what they want next
 *   closing.c   the callers that close handles, and the end of a client
 *   claims.c    what is known of each tenure
 *   requests.c  judges how each call ended
 *   holds.c     judges what is held: exclusion, deadlines, tokens, notices
 *   orphans.c   judges what is left behind in the backend
 *   fair.c      judges whether others get their turn
 *   order.c     the same for the queues of fair locks
 *   counts.h    the same for semaphores and latches
 *   team.c      callers that want several locks at once
 *   trace.c     the hash of all that happened, the story for readers, and the first failure
 *
 * Times: `true` time is that of the event queue. Each client has a clock of its own that counts
 * from another zero and may run a little fast or slow, and so has the backend, whose clock may also
 * jump. */
#ifndef PAWL_TESTS_SIM_LIB_SIM_H
#define PAWL_TESTS_SIM_LIB_SIM_H

#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"
#include "core/machine.h"
#include "engine/memory/table.h"
#include "sim/lib/counts.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_MULTI_SEEDS UINT64_C(2000000000) /* runs from here on are about several locks, */
#define SIM_JOINT_SEEDS UINT64_C(3000000000) /* and from here on these are given together */

enum {
    SIM_CLIENTS_MAX = 6,
    SIM_NAMES_MAX = 3,
    SIM_HANDLES_MAX = 8, /* per client, or so many for each name: */
    SIM_HANDLES_EACH = 3,
    SIM_ACTORS_MAX = 8, /* per client, one of them closes handles */
    SIM_BREAKS_MAX = 64,
    SIM_EARS_MAX = 64,
    SIM_TEAMS_MAX = 2, /* per client */
    SIM_KINDS = PAWL_PLAIN + 1
};

/* ===== The plan ===== */

enum sim_fault {
    /* Of single messages. */
    SIM_DROP_REQUEST,
    SIM_DROP_REPLY,
    SIM_LATE,
    SIM_DOUBLE,  /* a late copy of a request */
    SIM_REORDER, /* two threads hand their operations over in the wrong order */
    SIM_DROP_WAKE,
    SIM_NO_MEMORY, /* an allocation fails */
    SIM_REFUSE,    /* the backend will not, now or ever */
    /* From time to time. */
    SIM_CUT,
    SIM_CUT_PUSH,
    SIM_PAUSE_SHORT,
    SIM_PAUSE_LONG,
    SIM_CRASH,
    SIM_FREEZE,
    SIM_RESTART,
    SIM_AMNESIA, /* a restart without data */
    SIM_CLOCK_FORWARD,
    SIM_CLOCK_BACK,
    SIM_PROOF, /* the engine tells of a loss by itself */
    /* By the callers. */
    SIM_BREAK,
    SIM_CANCEL,
    SIM_CLOSE,
    SIM_THREAD_END,
    SIM_SHUT, /* the whole client is closed */
    SIM_FAULT_COUNT
};

extern const char *const sim_fault_names[SIM_FAULT_COUNT];

/* Of these families an engine may give several together. */
#define SIM_JOINS                                                                     \
    (PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX) | PAWL__FAMILY_BIT(PAWL__FAMILY_FAIR) |     \
        PAWL__FAMILY_BIT(PAWL__FAMILY_SHARED) | PAWL__FAMILY_BIT(PAWL__FAMILY_SPIN) | \
        PAWL__FAMILY_BIT(PAWL__FAMILY_PLAIN))

struct sim_plan {
    uint64_t seed;
    bool on[SIM_FAULT_COUNT];
    unsigned mille[SIM_FAULT_COUNT]; /* of messages or actions, for those that are not timed */
    bool fair;                       /* a saturated lock, no faults: do all get their turn? */
    bool session; /* an engine like the file engine: no expiry, dies with its client */
    bool ordered; /* a later answer proves that no earlier copy is about */
    bool queues_offline;
    unsigned clients;
    unsigned names;
    enum pawl__family families[SIM_NAMES_MAX]; /* of each name */
    unsigned teams;                            /* of each client, that want all names at once, */
    unsigned joins; /* and the engine gives these together, of SIM_JOINS, */
    bool twins;     /* and whoever is the first team asks for single names besides */
    int64_t permits[SIM_NAMES_MAX]; /* of semaphores */
    bool handoff;                   /* some handles of mutexes ask for it */
    unsigned handles;
    unsigned actors;
    unsigned events_max; /* then the healing begins */
    int64_t lease_us;    /* about which all other times are chosen */
    int64_t hold_us;
    int64_t think_us;
    int64_t delay_us; /* of a message, the least */
    int64_t spread_us;
    int64_t late_us; /* the most that a late message needs */
    int64_t gap_us;  /* between timed faults, on the average */
    int64_t timeout_us;
    int64_t give_up_us;
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed);

/* ===== The world ===== */

struct sim_world;
struct sim_client;
struct sim_actor;

enum sim_event_kind {
    /* In the backend and on the way. */
    SIM_EVENT_REQUEST,
    SIM_EVENT_FAULT,
    SIM_EVENT_BACKEND_UP,
    SIM_EVENT_THAW,
    SIM_EVENT_RESUME,
    SIM_EVENT_REBIRTH,
    /* In a client: these wait while it is paused. */
    SIM_EVENT_SUBMIT,
    SIM_EVENT_REPLY,
    SIM_EVENT_DEADLINE,
    SIM_EVENT_REFUSAL,
    SIM_EVENT_WAKE,
    SIM_EVENT_CUT,
    SIM_EVENT_RECONNECT,
    SIM_EVENT_PUSH_BACK,
    SIM_EVENT_TICK,
    SIM_EVENT_COURIER,
    SIM_EVENT_ACTOR
};

struct sim_event {
    struct pawl__timer timer; /* due in true time */
    struct sim_event *next;   /* in a backlog, or among the unused */
    enum sim_event_kind kind;
    struct sim_client *client; /* NULL: nobody's */
    unsigned life;             /* of the client: it may have died meanwhile */
    unsigned number;           /* of the name, the actor or the connection */
    uint64_t id;               /* wake: of the tenure that is called; 0: all */
    struct sim_call *call;
    struct pawl__delivery *notice;
};

/* One operation on its way: a copy, because the machine may give up on the operation first. */
struct sim_call {
    struct sim_call *next_unused;
    struct pawl__list node; /* in the client's calls while `op` is set, in order */
    struct pawl__op *op;    /* to be completed; NULL: ended already, or a mere copy */
    struct pawl__op copy;   /* what was asked, then how it ended */
    pawl_lock_info info;
    struct sim_client *client;
    unsigned life;
    char uuid[PAWL__UUID_SIZE + 1];
    struct sim_claim *claim; /* of op->id; NULL: not about a tenure */
    struct sim_claim *heir;
    unsigned name;
    unsigned connection;
    unsigned events; /* that still refer to it */
    bool handed;     /* to the engine */
    bool sent;
    bool applied;
    bool dropped;                 /* it will not arrive */
    bool cut;                     /* its reply will not */
    bool unread;                  /* its reply is there, but nobody has looked */
    bool wanted;                  /* ... although the operation is lazy */
    bool refused;                 /* it will be told so */
    bool unfit;                   /* not for want of a connection */
    struct sim_call *leader;      /* it is one with this and all of its followers; NULL: it leads */
    struct sim_call *follower;    /* the next of them, if these are one */
    int64_t way_us;               /* when it arrives, or is told that it was refused */
    int64_t reply_us;             /* of several that are one: when their replies come; 0: never */
    bool spared;                  /* not granted because of another */
    int64_t submitted_us;         /* true time */
    int64_t lease_us;             /* as it was asked for */
    struct sim_question question; /* about a count */
};

/* What we know about one tenure, beside what the machine says. A hold that was handed off is
 * another tenure under the same number. */
struct sim_claim {
    struct sim_claim *next;  /* all of a run */
    struct sim_claim *giver; /* handed off by this one; NULL: asked for */
    struct sim_client *client;
    unsigned life;
    char uuid[PAWL__UUID_SIZE + 1];
    uint64_t id;
    unsigned handed; /* so often, before it came here */
    uint64_t owner;
    unsigned name;
    int64_t lease_us;
    int64_t limit_us; /* max hold of its handle; 0: none */
    pawl_kind kind;   /* as it was asked for */
    bool renew;
    bool joint;                  /* it was to be given with others, or not at all */
    bool reads;                  /* does not exclude others that do */
    struct pawl__handle *handle; /* acquired through; NULL: closed since */

    /* In the machine. */
    bool in_machine; /* its tenure exists, */
    unsigned seen;   /* as of this step */
    bool closed;     /* nobody claims it any more: nothing may extend it */
    int64_t closed_us;

    /* In the backend. */
    struct sim_claim *next_holder; /* of the same name */
    uint64_t place;                /* in the queue of a fair lock; 0: never stood there */
    uint64_t token_end;            /* the last one that is reserved for its hold */
    int64_t first_us;              /* true time of its first grant */
    int64_t granted_us;            /* true time, of the last new grant; -1: never */
    int64_t copy_end_us;           /* the last acquire or pass was for so long (client's clock), */
    int64_t lengthened_us;         /* and the longest renewal */
    bool released;                 /* by itself */
    bool taken;                    /* broken, forgotten, or ended by a jump of the clock */
    bool release_unknown;          /* a release ended unknown */
    bool excused;                  /* a copy was made that no engine could know about */

    /* As its owner sees it. */
    struct pawl__tenure *tenure; /* while count > 0 */
    unsigned count;
    unsigned read_count;   /* of these, for reading, */
    unsigned first_count;  /* and through its handle */
    unsigned through;      /* a bit for each of the client's handles that it was acquired through */
    int64_t downgraded_us; /* true time; -1: not, or not any more */
    bool lost;
    bool owner_gone;
    unsigned told;       /* notices of loss */
    int64_t acquired_us; /* client's clock */
    uint64_t told_token; /* by the backend */
    int64_t best_us;     /* the latest deadline that answers allow */
    int64_t deadline_us; /* as last seen */
};

struct sim_handle {
    struct pawl__handle handle;
    struct pawl__terms terms;
    struct pawl__leases leases; /* of permits that it renews */
    unsigned name;
    bool is_owner;
    unsigned users; /* requests under way */
    bool open;
    bool closing;
    uint64_t cancels; /* so many so far */
};

struct sim_actor {
    struct sim_client *client;
    unsigned index;
    uint64_t owner; /* as a thread */
    bool busy;
    bool waiting_for_turn; /* an event will come */
    struct sim_handle *handle;
    struct pawl__request request;
    pawl_lock_info info;
    unsigned name; /* what it is about at the moment, */
    uint64_t who;  /* and as which owner */
    /* When the request began. */
    struct sim_claim *claim; /* acquire: what it asks for; release: of what */
    bool was_last;           /* release: the last one */
    bool downgrades;         /* release: it goes on for reading */
    bool must_end;           /* it cannot need the backend */
    pawl_status expected;    /* if it must end at once */
    bool needs_memory;       /* acquire: its handle has to remember a hold of another's */
    uint64_t cancels;
    struct sim_stake stake; /* in a count */
    bool holds;             /* a twin: through its handle */
};

/* Actors that act together, one for each name, as one owner. */
struct sim_team {
    struct sim_client *client;
    struct pawl__multi_call *call;
    uint64_t owner;
    struct pawl__party party; /* of those that are asked together */
    struct pawl__request *together[SIM_NAMES_MAX];
    unsigned pending; /* of this round */
    bool busy;
    bool holds;
};

struct sim_ear {
    unsigned name;
    uint64_t id;
};

struct sim_client {
    struct sim_world *world;
    unsigned index;
    unsigned life; /* counts crashes */
    bool alive;
    char uuid[PAWL__UUID_SIZE + 1];
    int64_t clock_zero_us;
    int64_t clock_ppm;
    struct pawl__machine machine;
    struct sim_event *tick;
    struct pawl__memory_client peer;

    /* Pauses. */
    bool paused;
    int64_t resumed_us; /* true time */
    struct sim_event *backlog;
    struct sim_event **backlog_end;

    /* The way to the backend. */
    bool online; /* as far as it knows */
    bool wired;  /* in truth */
    unsigned connection;
    unsigned last_connection; /* of the life before */
    int64_t request_clear_us; /* no request overtakes */
    int64_t reply_clear_us;
    bool subscribed[SIM_NAMES_MAX];
    struct sim_ear ears[SIM_EARS_MAX]; /* the same for single waiters */
    unsigned ear_count;
    struct pawl__list calls;
    int64_t trouble_us; /* true time of the last thing that went wrong for it */

    /* Callers. */
    struct sim_handle handles[SIM_HANDLES_EACH * SIM_NAMES_MAX];
    struct sim_actor actors[SIM_ACTORS_MAX];
    struct sim_team teams[SIM_TEAMS_MAX];
    uint64_t next_owner;
    bool shutting;             /* its pawl_client_close() is under way */
    int64_t drain_until_us;    /* true time; 0: callers are still inside */
    struct sim_claim **claims; /* by id - 1: the last that had it */
    size_t claim_count;
    size_t claim_room;
    struct sim_claim **open; /* those whose tenures the machine knows */
    size_t open_count;
    size_t open_room;
    struct sim_ask **asks; /* about counts, of this life, by number */
    size_t ask_count;
    size_t ask_room;
    size_t ask_open;         /* the machine has forgotten all before */
    struct sim_claim **held; /* those with count > 0 */
    size_t held_count;
    size_t held_room;
    unsigned step;

    /* For the fairness. */
    int64_t watching_us[SIM_NAMES_MAX];
    int64_t wanting_us[SIM_NAMES_MAX];
    unsigned turns[SIM_NAMES_MAX]; /* that it missed while it waited */
};

struct sim_stats {
    uint64_t events;
    uint64_t grants;
    uint64_t kinds[SIM_KINDS]; /* the same by the kind of the lock */
    uint64_t handed;           /* holds that were handed off */
    uint64_t downgrades;       /* holds that went on for reading */
    uint64_t losses;
    uint64_t requests;
    uint64_t several;      /* acquisitions of several locks at once */
    uint64_t counted;      /* questions that changed a count, */
    uint64_t takes;        /* permits taken, by calls, */
    uint64_t downs;        /* latches counted down, */
    uint64_t opened;       /* and waited for; */
    uint64_t permits_lost; /* leased permits that were told of, */
    uint64_t given_up;     /* and questions that nobody asks any more */
    int64_t virtual_us;
    uint64_t faults[SIM_FAULT_COUNT];
    unsigned row_most;   /* grants in one client while another waited */
    unsigned turns_most; /* times that a client missed the lock while it was free */
};

struct sim_world {
    struct sim_plan plan;
    struct pawl__random random;
    struct pawl__heap queue;
    int64_t now_us; /* true time */
    uint64_t hash;
    bool verbose;
    bool healing; /* no more faults */
    bool closing; /* no more callers */
    int64_t heal_until_us;
    bool stopped;                /* it would not end by itself */
    bool in_machine;             /* allocations may fail */
    struct sim_client *stepping; /* whose machine is at work; NULL: none */

    struct pawl__memory_table table;
    struct pawl__place places[SIM_NAMES_MAX];
    int64_t table_shift_us; /* of the backend's clock */
    bool down;
    bool frozen;
    struct sim_event *freezer;
    struct sim_event **freezer_end;
    struct sim_claim *holders[SIM_NAMES_MAX]; /* in the table, as we believe; several may read */
    uint64_t token_max[SIM_NAMES_MAX];
    uint64_t token_seen[SIM_NAMES_MAX][2]; /* by callers; [1]: of those that exclude readers */
    int64_t token_seen_us[SIM_NAMES_MAX][2];
    int64_t taken_us[SIM_NAMES_MAX][SIM_BREAKS_MAX]; /* when locks were taken away */
    unsigned taken_count[SIM_NAMES_MAX];
    const struct sim_client *row_client[SIM_NAMES_MAX];
    unsigned row_count[SIM_NAMES_MAX]; /* of grants in one client, one after the other */
    int64_t row_us[SIM_NAMES_MAX];
    const struct sim_client *left_by[SIM_NAMES_MAX]; /* to others that wait; NULL: nobody */
    uint64_t line[SIM_NAMES_MAX];                    /* places given in queues of fair locks */
    int64_t free_us[SIM_NAMES_MAX];                  /* since when with somebody in its queue */

    struct sim_count counts[SIM_NAMES_MAX];
    struct sim_ask *asks;
    uint64_t operations; /* of the operator */
    uint64_t permits;    /* ids given so far */

    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_claim *claims;
    struct sim_event *unused_events;
    struct sim_call *unused_calls;
    struct sim_stats stats;
    char failure[400]; /* empty: none */
};

/* ===== What the files call of each other ===== */

/* trace.c */
extern const char *sim_only; /* the one oracle that is believed; NULL: all */
void sim_hash(struct sim_world *world, uint64_t value);
void sim_say(struct sim_world *world, const struct sim_client *client, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_fail(struct sim_world *world, const char *oracle, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *sim_op_text(enum pawl__op_kind kind);
const char *sim_answer_text(enum pawl__answer answer);
const char *sim_request_text(enum pawl__request_kind kind);
const char *sim_verb_text(enum pawl__tally_verb verb);
const char *sim_state_text(enum pawl__tenure_state state);

/* queue.c */
struct sim_event *sim_event_at(
    struct sim_world *world, int64_t at_us, enum sim_event_kind kind, struct sim_client *client);
struct sim_event *sim_event_next(struct sim_world *world);
void sim_event_push(struct sim_world *world, struct sim_event *event, int64_t at_us);
void sim_event_cancel(struct sim_world *world, struct sim_event *event);
void sim_event_free(struct sim_world *world, struct sim_event *event);
struct sim_call *sim_call_new(struct sim_world *world);
void sim_call_settle(
    struct sim_world *world, struct sim_call *call); /* free it if nobody needs it */
int64_t sim_local(const struct sim_client *client, int64_t true_us);
int64_t sim_true(const struct sim_client *client, int64_t local_us);
int64_t sim_now(const struct sim_client *client); /* on its own clock */
uint64_t sim_draw(struct sim_world *world, uint64_t bound);
bool sim_chance(struct sim_world *world, unsigned mille);
int64_t sim_about(struct sim_world *world, int64_t mean_us); /* exponentially spread */

/* run.c */
void sim_run(struct sim_world *world, uint64_t seed, bool verbose);
void sim_world_free(struct sim_world *world); /* what is kept from run to run */

/* faults.c */
bool sim_strikes(struct sim_world *world, enum sim_fault fault); /* and counts it */
void sim_faults_start(struct sim_world *world);
void sim_fault_strike(struct sim_world *world);
void sim_faults_end(struct sim_world *world);
void sim_backend_up(struct sim_world *world);
void sim_backend_thaw(struct sim_world *world);

/* backend.c */
int64_t sim_backend_now(const struct sim_world *world);
void sim_backend_apply(struct sim_world *world, struct sim_call *call);
void sim_backend_forget(struct sim_world *world);
void sim_backend_jump(struct sim_world *world, int64_t by_us);
int64_t sim_backend_remaining(const struct sim_world *world);
void sim_backend_bury(struct sim_client *client);
bool sim_backend_has(struct sim_world *world, const struct sim_claim *claim);
bool sim_backend_queues(struct sim_world *world, const struct sim_claim *claim);
bool sim_backend_writes(struct sim_world *world, const struct sim_claim *claim);
void sim_backend_handed(struct sim_world *world, struct sim_claim *claim);
void sim_backend_watch(struct sim_client *client, unsigned name, uint64_t id);

/* joint.c */
void sim_joint_submit(struct sim_call *before, struct sim_call *call);
void sim_joint_sent(struct sim_call *leader);
void sim_joint_decide(struct sim_world *world, struct sim_call *leader);
void sim_joint_reply(struct sim_call *leader, int64_t at_us);

/* net.c */
void sim_call_refer(struct sim_call *call, struct sim_event *event);
void sim_net_submit(struct sim_client *client, struct pawl__op *op);
void sim_net_send(struct sim_client *client, struct sim_call *call);
void sim_net_arrive(struct sim_world *world, struct sim_event *event);
void sim_net_reply(struct sim_client *client, struct sim_call *call);
void sim_net_hear(struct sim_client *client);
void sim_net_deadline(struct sim_client *client, struct sim_call *call);
void sim_net_refusal(struct sim_client *client, struct sim_call *call);
void sim_net_cut(struct sim_client *client);
void sim_net_cut_noticed(struct sim_client *client, unsigned connection);
void sim_net_reconnect(struct sim_client *client);
void sim_net_cut_push(struct sim_client *client);
void sim_net_push_back(struct sim_client *client);
void sim_net_wakes(struct sim_world *world);
void sim_net_unsubscribe(struct sim_client *client);
void sim_net_stop(struct sim_client *client);
void sim_net_forget_client(struct sim_client *client);

/* client.c */
void sim_client_start(struct sim_client *client);
void sim_client_event(struct sim_client *client, struct sim_event *event);
void sim_client_crash(struct sim_client *client);
void sim_client_free(struct sim_client *client);
void sim_client_shut(struct sim_client *client);
void sim_client_pause(struct sim_client *client, int64_t length_us);
void sim_client_resume(struct sim_client *client);
void sim_client_begin(struct sim_client *client); /* before a call of the machine */
void sim_client_end(struct sim_client *client);   /* after it: take the outputs, check all */
void sim_client_open_handle(struct sim_client *client, struct sim_handle *handle);
void sim_client_drop_extra(struct sim_handle *handle);
bool sim_client_is_quiet(const struct sim_client *client);

/* actor.c */
void sim_actors_start(struct sim_client *client);
void sim_actor_act(struct sim_actor *actor);
void sim_actor_start(struct sim_actor *actor, struct sim_handle *handle,
    enum pawl__request_kind kind, int64_t wait_us);
void sim_actor_cancel(struct sim_actor *actor, struct sim_handle *handle);
void sim_actor_later(struct sim_actor *actor, int64_t delay_us);
void sim_actor_finished(struct sim_actor *actor);

/* team.c */
bool sim_in_team(const struct sim_actor *actor); /* or a twin of one */
void sim_teams_start(struct sim_client *client);
void sim_teams_free(struct sim_client *client);
void sim_team_act(struct sim_actor *actor);
void sim_team_finished(struct sim_actor *actor);
struct pawl__party *sim_team_party(struct sim_actor *actor); /* that it asks with now; NULL: none */

/* closing.c */
void sim_closer_act(struct sim_actor *actor);
void sim_shut_begin(struct sim_client *client);

/* requests.c */
void sim_request_started(struct sim_actor *actor);
void sim_request_finished(struct sim_actor *actor);
void sim_requests_check(struct sim_client *client);
bool sim_fault_is_fair(const struct sim_actor *actor);

/* claims.c */
struct sim_claim *sim_claim_of(const struct sim_client *client, const struct pawl__tenure *tenure);
struct sim_claim *sim_claim_open(
    struct sim_client *client, const struct pawl__tenure *tenure, unsigned name);
void sim_claim_handed(struct sim_client *client, const struct sim_handle *handle);
void sim_claims_forget_handle(struct sim_client *client, const struct sim_handle *closed);
void sim_claim_close(struct sim_claim *claim);
void sim_claim_list(struct sim_claim ***list, size_t *count, size_t *room, struct sim_claim *claim);

/* holds.c */
struct sim_claim *sim_held(struct sim_client *client, unsigned name, uint64_t owner);
void sim_hold_acquired(struct sim_actor *actor, struct pawl__tenure *tenure);
void sim_hold_drop(struct sim_claim *claim);
void sim_hold_answered(const struct sim_call *call);
void sim_hold_notice(struct sim_client *client, struct pawl__delivery *notice);
void sim_holds_check(struct sim_client *client);
void sim_hold_look(struct sim_actor *actor, struct sim_handle *handle);
void sim_taken(struct sim_world *world, unsigned name);
bool sim_taken_between(
    const struct sim_world *world, unsigned name, int64_t from_us, int64_t to_us);

/* orphans.c */
void sim_orphan_submit(struct sim_call *call);
void sim_orphan_applied(
    struct sim_world *world, const struct sim_call *call, const struct sim_claim *claim);
void sim_orphans_check(struct sim_client *client);

/* fair.c */
void sim_fair_granted(struct sim_world *world, const struct sim_claim *claim, bool passed);
void sim_fair_left(struct sim_world *world, const struct sim_claim *claim);
void sim_fair_held(struct sim_client *client, unsigned name);
void sim_fair_watching(struct sim_client *client, unsigned name, bool watching);
void sim_fair_handed(struct sim_world *world, const struct sim_claim *claim);

/* order.c */
void sim_order_queued(struct sim_world *world, struct sim_claim *claim);
void sim_order_freed(struct sim_world *world, unsigned name);
void sim_order_granted(struct sim_world *world, const struct sim_claim *claim);

#endif
