/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the lease lock: does anybody get it who should?
 *
 * Two clients take the lock from one server again and again. A holder is renewed by its keeper,
 * for as long as it likes; it releases or dies. A release is announced to whoever waits, but the
 * announcement may be lost. A waiter sleeps until an announcement or until its timer rings, and
 * tries again. Everybody who can go on does so in the end (weak fairness), but time may be long.
 *
 *   progress   a lock that is free while somebody waits is taken (checked as the formula below)
 *   overdue    a holder that died keeps the lock for one lease at most
 *
 * The switches below are the assumptions. README.md explains them; `check` runs the model with each
 * of them turned off.
 */

/* ===== Size ===== */

#ifndef LEASE
#define LEASE 3                 /* ticks */
#endif
#ifndef POLL
#define POLL 2                  /* ticks that a waiter sleeps at most */
#endif

/* ===== Assumptions about the world: 1 as hoped for, 0 broken ===== */

#ifndef SERVER_ANSWERS
#define SERVER_ANSWERS 1        /* 0: the server may stop answering, for good */
#endif

/* ===== What the lock does about it: 1 as pawl, 0 left out ===== */

#ifndef WAITERS_POLL
#define WAITERS_POLL 1          /* 0: a waiter relies on announcements alone */
#endif
#ifndef LEASE_ENDS
#define LEASE_ENDS 1            /* 0: the server keeps a key until it is released */
#endif
#ifndef KEEPER_KNOWS
#define KEEPER_KNOWS 1          /* 0: the keeper goes on for a holder that has died */
#endif

/* ===== Witnesses ===== */

/* A witness is a state that must be reachable, or a proof says nothing: see `seen`. */
#define WOKEN 1                 /* a waiter was granted the lock after an announcement */
#define POLLED 2                /* a waiter was granted the lock after its timer */
#define INHERITED 3             /* a waiter was granted the lock of a holder that had died */
#ifndef WITNESS
#define WITNESS 0
#endif

/* ===== The world ===== */

#define NOBODY 2

byte owner = NOBODY;            /* of the key: a client */
byte left;                      /* ticks until the key expires */
bool answers = true;
bool waits[2], dead[2], announced[2];
byte timer[2];
byte dead_ticks;                /* that the key has outlived its holder */
bool orphaned;                  /* the key expired after its holder had died */

bool overdue;                   /* must never be */

#define HOLDER_IS_DEAD (owner != NOBODY && dead[owner])

/* Fails in the search for this witness, and only there. */
inline seen(what)
{
    assert(WITNESS != what)
}

ltl progress { [] ((owner == NOBODY && (waits[0] || waits[1])) -> <> (owner != NOBODY)) }

/* ===== Time and misfortune ===== */

#define AGED(ticks) ((ticks) > 0 -> (ticks) - 1 : 0)

inline age_key()
{
    if
    :: HOLDER_IS_DEAD ->
        dead_ticks++;
        overdue = (dead_ticks > LEASE);
        assert(!overdue)
    :: else
    fi;
    left = AGED(left);
    if
    :: left == 0 && LEASE_ENDS ->
        orphaned = orphaned || HOLDER_IS_DEAD;
        owner = NOBODY
    :: else
    fi;
    if
    :: !HOLDER_IS_DEAD -> dead_ticks = 0
    :: else
    fi
}

active proctype Time()
{
end:
    do
    :: d_step {
           printf("-- a tick --\n");
           age_key();
           timer[0] = AGED(timer[0]);
           timer[1] = AGED(timer[1])
       }
    od
}

active proctype Outage()
{
end:
    d_step { !SERVER_ANSWERS -> answers = false; printf("server: answers no more\n") }
}

/* ===== A client and its keeper ===== */

proctype Keeper(byte me)
{
end:
    do
    :: d_step {
           answers && owner == me && (!dead[me] || !KEEPER_KNOWS);
           left = LEASE;
           printf("keeper of client %d: renews\n", me)
       }
    od
}

#define MAY_TRY (announced[me] || (timer[me] == 0 && WAITERS_POLL))

inline take()
{
    if
    :: orphaned -> seen(INHERITED)
    :: else
    fi;
    owner = me;
    left = LEASE;
    printf("client %d: GRANTED\n", me);
    waits[me] = false;
    announced[me] = false;
    orphaned = false;
    timer[me] = 0
}

inline sleep()
{
    printf("client %d: held, sleeps\n", me);
    announced[me] = false;
    timer[me] = POLL
}

proctype Client(byte me)
{
idle:
    if
    :: atomic { answers && owner == NOBODY -> take(); goto held }
    :: atomic { answers && owner != NOBODY -> waits[me] = true; sleep() }
    :: goto end                                     /* has had enough */
    fi;

waiting:
    do
    :: atomic {
           answers && owner == NOBODY && MAY_TRY;
           if
           :: announced[me] -> seen(WOKEN)
           :: else -> seen(POLLED)
           fi;
           take();
           goto held
       }
    :: atomic { answers && owner != NOBODY && MAY_TRY -> sleep() }
    od;

held:
    if
    :: atomic {
           owner == me && answers;
           owner = NOBODY;
           left = 0;
           if
           :: waits[1 - me] ->
               printf("client %d: releases, client %d is told\n", me, 1 - me);
               announced[1 - me] = true
           :: printf("client %d: releases, nobody is told\n", me)
           fi;
           goto idle
       }
    :: atomic { owner != me -> printf("client %d: has lost it\n", me); goto idle }
    :: atomic { true -> dead[me] = true; printf("client %d: dies\n", me) }
    fi;

end:
    false
}

init
{
    atomic { run Client(0); run Client(1); run Keeper(0); run Keeper(1) }
}
