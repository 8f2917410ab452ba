/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator of quorums: Redlock with all of its threads, in virtual time, from one seed.
 *
 * What runs is the library as it is shipped: the calls, compound/quorum*.c, the clients with their
 * keepers and couriers, the machine, the waiters of base/wait.c. Only what blocks is replaced, when
 * the program is linked (-Wl,--wrap): mutexes, conditions, futexes, poll, event and timer
 * descriptors, the making and joining of threads, randomness. The threads are real ones, but one at
 * a time has the baton; it is passed on where a thread blocks, and at some other points. Who gets
 * it is drawn from the seed, and time goes on when nobody can run. So a run is the same each time.
 *
 *   sched.c    threads, the baton, virtual time, events
 *   wraps.c    what stands in for the calls that block
 *   link.c     an engine: a client's connection to a node
 *   node.c     the nodes, servers on the table of the memory engine, and the network to them
 *   faults.c   what goes wrong, and when
 *   notes.c    what the nodes keep of each other: since when, and how their clocks differ
 *   user.c     what the processes do
 *   oracle.c   what must hold
 *   duties.c   the same for cancellations, warnings and memory
 *   scenes.c   what is too rare to be left to chance
 *   plan.c     what a seed means
 *   quorum.c   many seeds; each runs in a child of its own, twice
 *
 * Times are those of the world (now_us) unless a name says otherwise; every process and every node
 * has a clock of its own, which is apart from that and runs a little faster or slower. */
#ifndef PAWL_SIM_QUORUM_QSIM_H
#define PAWL_SIM_QUORUM_QSIM_H

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"
#include "compound/quorum.h"
#include "engine/memory/table.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#define QS_PROCESSES 4
#define QS_USERS 2 /* threads of a process that use the lock */
#define QS_NODES 5
#define QS_THREADS 160
#define QS_FDS 256
#define QS_NOTES 1024
#define QS_NAME "quorum"
#define QS_SENTENCE 400

enum qs_fault {
    QS_RESET,    /* a connection breaks */
    QS_CUT_UP,   /* nothing gets from a process to a node for a while, */
    QS_CUT_DOWN, /* or back, */
    QS_CUT,      /* or either way, */
    QS_CUT_NODE, /* or to and from a node at all, */
    QS_ISOLATE,  /* or between a process and most nodes */
    QS_SLOW,     /* a connection takes long */
    QS_HANG,     /* a node answers nobody for a while */
    QS_RESTART,  /* a node goes away and comes back with its data, */
    QS_FORGET,   /* or without */
    QS_DELETE,   /* somebody deletes the key at a node */
    QS_PAUSE,    /* a process is stopped for a while */
    QS_STALL,    /* a thread is not scheduled for a while */
    QS_JUMP,     /* a node's clock is set */
    QS_SHORT,    /* a process gets hardly any memory for a while */
    QS_FAULT_COUNT
};

/* ===== Threads ===== */

enum qs_state {
    QS_RUNNABLE,
    QS_ASLEEP,  /* until due_us */
    QS_WAITING, /* for something at an address, or due_us */
    QS_POLLING,
    QS_ENDED
};

struct qs_process;

struct qs_thread {
    unsigned number;
    struct qs_process *process; /* NULL: the director */
    enum qs_state state;
    const void *on;
    int64_t due_us;
    int64_t stalled_us; /* it is not scheduled until then */
    const struct pollfd *fds;
    nfds_t fd_count;
    bool joined;
    pthread_t real;
    void *(*run)(void *);
    void *arg;
    _Atomic uint32_t baton;
};

/* Something that happens at its time. */
struct qs_event {
    struct pawl__timer timer;
    void (*fire)(struct qs_event *event);
};

/* ===== Processes, nodes and what is between them ===== */

struct qs_plan {
    unsigned processes;
    unsigned nodes;
    unsigned users[QS_PROCESSES];
    int64_t length_us; /* of the time with faults */
    int64_t lease_ms;
    int64_t max_lease_ms;
    int64_t max_hold_ms;
    int64_t node_timeout_ms;
    int64_t warn_ms;
    pawl_guard guard;
    bool calm;    /* no faults: nothing is lost, everybody is granted it */
    bool deletes; /* keys are deleted: a hold may overlap, but is told of it */
    bool kills;   /* a new connection ends the old ones at the server */
    bool clocks;  /* the nodes' clocks are looked at, and run well enough for that */
    bool reopens; /* processes come and go: what they knew of the nodes is forgotten */
    bool cancels;
    unsigned scene; /* > 0: what happens is written down in scenes.c */
    bool by_thread;
    bool renew;
    bool unawaited;
    bool lazy;
    bool asynchronous;
    unsigned yields;      /* of 1000 points */
    unsigned stalls;      /* of 100000 points */
    unsigned fault_kinds; /* a bit for each */
    int64_t fault_us;     /* between two */
    int64_t ppm;          /* clocks run so much faster or slower at most; */
    bool apart;           /* all nodes' so much faster, and all processes' slower */
    bool forgetful;       /* no node is durable */
    int64_t think_us;
    int64_t hold_us;
};

/* An acquire that is under way. */
struct qs_ask {
    struct qs_ask *next;
    int64_t began_us;
    int64_t canceled_us; /* first; 0: not yet */
};

/* One hold, as its holder believes in it. */
struct qs_claim {
    struct qs_claim *next;
    struct qs_process *process;
    uint64_t token;
    uint64_t owner;
    int64_t until_us;   /* it was said to be valid so long */
    int64_t leaving_us; /* its release began */
    bool active;        /* it has neither been released nor found lost */
    bool excused;       /* it need not have found out that it was lost */
    bool ends_lost;
    unsigned told;     /* of its loss */
    unsigned warned;   /* that it is in danger */
    bool safe;         /* it was out of it since */
    int64_t danger_us; /* it has been in danger since then; 0: it is not */
    int64_t left_us;   /* when the worker last looked, */
    bool final;        /* and it could not have had more then */
};

/* Two that believed at the same time. */
struct qs_pair {
    struct qs_pair *next;
    const struct qs_claim *claims[2];
};

struct qs_process {
    unsigned number;
    int64_t offset_us;
    int64_t ppm;
    int64_t wall_us;      /* its wall clock is so far off */
    int64_t paused_us;    /* until then */
    int64_t disturbed_us; /* one of its threads was kept from running until then */
    int64_t short_us;     /* memory is short until then */
    struct qs_ask *asks;
    int64_t canceled_us; /* the last cancellation ended then; NEVER: it is under way */
    pawl_client *clients[QS_NODES];
    pawl_lock *lock;
    int64_t repeated_us;  /* a release was last sent again, for want of an answer */
    int64_t abandoned_us; /* the keys of somebody who has ended may stay until then */
};

struct qs_note {
    char run_id[PAWL__IDENTITY_SIZE];
    int64_t since_us; /* by the node's clock, as the others */
    int64_t clock_us; /* how the clocks differ was noted then; 0: it was not */
    int64_t least_us; /* by so much */
    int64_t most_us;
    int64_t jumped_us; /* its clock was found to have jumped then; 0: it was not */
};

struct qs_node {
    unsigned number;
    int64_t offset_us;
    int64_t ppm;
    bool durable;
    bool up;
    bool forgets; /* when it comes back */
    unsigned run;
    int64_t hung_us;       /* until then */
    int64_t started_us;    /* by its clock */
    int64_t jump_us;       /* its clock was set by so much so far, */
    int64_t jump_least_us; /* at least, */
    int64_t jump_most_us;  /* and at most: where it was once, it does not come back to */
    struct pawl__memory_table table;
    struct pawl__memory_client keeper; /* watches the name, so that its token is not dropped */
    struct qs_note notes[QS_NOTES];
    unsigned note_count;
    struct qs_event back;
    uint64_t late_id; /* granted so late that its process had given up taking it back */
    uint64_t key_id;  /* whose key stands there without anybody's need, */
    int64_t key_us;   /* and since when */
};

enum qs_link_state { QS_DOWN, QS_CONNECTING, QS_UP };

/* A request on its way, and then its answer. */
struct qs_message {
    struct qs_event event;
    struct qs_message *all;
    struct pawl__list node; /* in the inbox */
    struct qs_link *link;
    unsigned generation;
    unsigned run; /* of the node */
    bool answered;
    bool dead; /* its connection broke before it got there */
    char uuid[PAWL__UUID_SIZE + 1];
    struct pawl__memory_client client; /* who has sent it */
    struct pawl__op op;
    pawl_lock_info info;
    int64_t clock_us;       /* the node's, when it was done */
    struct pawl__op *asked; /* NULL: nobody waits for the answer any more */
};

struct qs_link {
    struct qs_process *process;
    struct qs_node *node;
    struct pawl__host *host;
    char uuid[PAWL__UUID_SIZE + 1];
    struct pawl__server_identity identity; /* of who answered the last greeting */
    int fd;
    int wake_fd;
    enum qs_link_state state;
    unsigned generation;
    unsigned run;
    unsigned killed; /* generations below this are dead at the node */
    bool wanted;
    bool stopped;
    bool was_ready;
    bool reading;
    bool missed; /* somebody came to read meanwhile */
    bool driven;
    bool broken;
    bool refused;
    bool greeted;
    int64_t try_us; /* by the process's clock */
    unsigned tries;
    struct pawl__op *pending;
    struct pawl__list inbox;
    struct qs_event hello;
    bool hello_back;
    struct pawl__server_identity next_identity;
    unsigned next_run;
    uint64_t released_id; /* the last one that was sent */
    int64_t delay_us;
    int64_t slow_us; /* until then */
    int64_t cut_up_us;
    int64_t cut_down_us;
    int64_t last_up_us;
    int64_t last_down_us;
};

/* ===== The world ===== */

/* What the parent gets to know of a run. */
struct qs_result {
    uint64_t hash;
    bool ended;
    char failure[QS_SENTENCE];
    int64_t virtual_us;
    uint64_t switches;
    uint64_t grants;
    uint64_t busy;
    uint64_t losses;
    uint64_t overlaps;
    uint64_t canceled;
    uint64_t warnings;
    uint64_t refused; /* allocations */
    uint64_t faults[QS_FAULT_COUNT];
};

struct qs_world {
    struct qs_plan plan;
    struct pawl__random random;
    struct qs_result *result;
    bool verbose;
    int64_t now_us;
    uint64_t idle_switches; /* since time last went on */
    struct pawl__heap events;
    bool in_event;
    int64_t blocks; /* of memory that are in use */
    struct qs_thread threads[QS_THREADS];
    unsigned thread_count;
    struct qs_process processes[QS_PROCESSES];
    struct qs_node nodes[QS_NODES];
    struct qs_link links[QS_PROCESSES][QS_NODES];
    struct qs_message *messages;
    struct qs_claim *claims;
    struct qs_pair *pairs;
    uint64_t token;  /* the greatest so far */
    bool calm;       /* the faults are over */
    unsigned opened; /* processes that have begun, */
    unsigned used;   /* that have had it once more since, */
    unsigned closed; /* and that are done */
    struct qs_event nemesis;
    struct qs_event monitor;
};

extern struct qs_world qs;
extern _Thread_local struct qs_thread *qs_self; /* NULL: not simulated */
extern const char *const qs_fault_names[QS_FAULT_COUNT];

/* plan.c */
void qs_plan_make(struct qs_plan *plan, uint64_t seed);
int64_t qs_below(int64_t bound); /* from 0 to bound - 1 */
int64_t qs_between(int64_t least, int64_t most);
bool qs_chance(unsigned of_thousand);
int64_t qs_any_ppm(bool is_node);

/* sched.c */
void qs_begin(void); /* the calling thread becomes the director */

/* Write it down: it becomes part of the hash, and is shown if somebody looks. */
void qs_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An oracle was wrong. Ends the run. */
void qs_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

void qs_event_set(struct qs_event *event, int64_t at_us, void (*fire)(struct qs_event *event));
void qs_event_clear(struct qs_event *event);

/* Block the calling thread; others run meanwhile. False: the time has come. */
bool qs_wait(const void *on, int64_t due_us);
bool qs_poll(const struct pollfd *fds, nfds_t count, int64_t due_us);
void qs_sleep(int64_t duration_us);

void qs_wake(const void *on);
void qs_wake_pollers(int fd);
void qs_point(void); /* here another thread may run */

/* The calling process's clock, and when that will have gone on by so much. */
int64_t qs_process_now(const struct qs_process *process);
int64_t qs_process_later(const struct qs_process *process, int64_t duration_us);
void qs_pause(struct qs_process *process, int64_t duration_us);

/* wraps.c */
int qs_fd_link(struct qs_link *link);
void qs_fd_close(int fd);
unsigned qs_fds_open(void);
int64_t qs_fds_due(const struct pollfd *fds, nfds_t count); /* of the timers among them */
bool qs_fd_ready(int fd);

/* link.c */
extern const struct pawl__engine qs_engine;
bool qs_link_readable(const struct qs_link *link);
void qs_link_arrived(struct qs_link *link); /* something is to be read */

/* node.c */
void qs_nodes_begin(void);
void qs_nodes_end(void);
int64_t qs_node_now(const struct qs_node *node);
void qs_send(struct qs_link *link, struct pawl__op *op);
void qs_connect(struct qs_link *link);
bool qs_roundtrip(struct qs_link *link); /* WAITS; false: no answer */
void qs_node_jump(struct qs_node *node);
void qs_node_stop(struct qs_node *node, bool forgets, int64_t duration_us);
void qs_node_delete(struct qs_node *node);
void qs_link_reset(struct qs_link *link);

/* notes.c */
void qs_see(struct qs_node *node, struct pawl__sighting *sighting);

/* faults.c */
void qs_faults_begin(void);
void qs_faults_end(void);

/* oracle.c */
struct qs_claim *qs_granted(struct qs_process *process); /* NULL: it is over already */
bool qs_looked(struct qs_claim *claim);                  /* false: it is lost */
void qs_leaving(struct qs_claim *claim);                 /* it will not be relied on any more */
void qs_left(struct qs_claim *claim, pawl_status status);
void qs_on_lost(const pawl_event *event, void *arg);
const struct qs_process *qs_holder(void); /* who believes to hold it now; NULL: nobody */
void qs_watch_begin(void);
struct qs_claim *qs_claim_of(struct qs_process *process, uint64_t token, uint64_t owner);
struct qs_link *qs_link_by(const struct qs_node *node, const char *uuid);
void qs_check_no_keys(void);
void qs_check_end(void);

/* duties.c */

/* An acquire is called, and returns. */
void qs_asking(struct qs_process *process, struct qs_ask *ask);
void qs_asked(struct qs_process *process, const struct qs_ask *ask, pawl_status status);
void qs_cancel(struct qs_process *process);
void qs_on_risk(const pawl_event *event, void *arg);
void qs_watch_dangers(void);
void qs_memory_begin(void);
void qs_check_memory(void);

/* user.c */
void qs_users_run(void); /* the director waits for all of them */
void qs_open_all(struct qs_process *process);
void qs_close_all(struct qs_process *process);

/* scenes.c */
#define QS_SCENES_FROM 1000000 /* seeds from here on are scenes, */
#define QS_SCENES_EACH 1000    /* so many of each */
#define QS_SCENES 3
void qs_scene_plan(struct qs_plan *plan, uint64_t seed);
void qs_scene_play(struct qs_process *process);

#endif
