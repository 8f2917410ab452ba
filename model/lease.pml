/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease lock on one server: two clients, their watchdogs, a storage, and a network without
 * manners.
 *
 * A client takes the lock for a tenure, has it renewed, writes to the storage, releases, and begins
 * its next tenure. What it sends stays in the network: it may arrive at once, late, after the
 * answer to something sent later, again and again, or never; so may the answers. (An acquire
 * arrives twice at most, because each one may count up the tokens.) Time is kept as distances ("the
 * key has 2 ticks left"), so it has no end; the number of tenures has.
 *
 * The switches below are the assumptions. README.md explains them, and what was left out; `check`
 * runs the model with each of them turned off.
 */

/* ===== Size ===== */

#ifndef LEASE
#define LEASE 2                 /* ticks */
#endif
#ifndef TENURES
#define TENURES 2               /* of each client */
#endif

/* ===== Assumptions about the world: 1 as hoped for, 0 broken ===== */

#ifndef CLIENT_CLOCK_RUNS
#define CLIENT_CLOCK_RUNS 1     /* 0: the clock of client 0 may stand still while time goes on */
#endif
#ifndef CLIENT_CLOCK_EXACT
#define CLIENT_CLOCK_EXACT 1    /* 0: it may lose a tick, but not two within a lease */
#endif
#ifndef SERVER_CLOCK_STEADY
#define SERVER_CLOCK_STEADY 1   /* 0: the server's clock jumps forward by a lease, once */
#endif
#ifndef SERVER_REMEMBERS
#define SERVER_REMEMBERS 1      /* 0: the server restarts without the key, once */
#endif
#ifndef COUNTER_SURVIVES
#define COUNTER_SURVIVES 1      /* 0: and without the token counter */
#endif
#ifndef DATE_GROWS
#define DATE_GROWS 1            /* 0: and with the date set back to the beginning */
#endif

/* ===== What the lock does about it: 1 as pawl, 0 left out ===== */

#ifndef OWNER_PER_TENURE
#define OWNER_PER_TENURE 1      /* 0: all tenures of a client have one name at the server */
#endif
#ifndef RELEASE_LOOKS
#define RELEASE_LOOKS 1         /* 0: a release deletes the key, whoever holds it */
#endif
#ifndef RENEWAL_LOOKS
#define RENEWAL_LOOKS 1         /* 0: a renewal extends the key, whoever holds it */
#endif
#ifndef GRANT_FROM_SEND
#define GRANT_FROM_SEND 1       /* 0: a lease is counted from the answer */
#endif
#ifndef RENEW_FROM_SEND
#define RENEW_FROM_SEND 1       /* 0: a renewed lease is counted from the answer */
#endif
#ifndef MARGIN
#define MARGIN 0                /* ticks taken off for clocks that are not exact */
#endif
#ifndef LOST_IS_FINAL
#define LOST_IS_FINAL 1         /* 0: a late answer revives a hold that was reported lost */
#endif
#ifndef GUARD
#define GUARD LEASE             /* ticks that a restarted server is not used, 1 at least */
#endif
#ifndef STORAGE_FENCES
#define STORAGE_FENCES 1        /* 0: the storage takes every write, whatever its token */
#endif
#ifndef TOKEN_FROM_DATE
#define TOKEN_FROM_DATE 1       /* 0: a lost token counter begins with 1 again */
#endif

/* ===== What happens at all: 0 keeps a search small ===== */

#ifndef RENEWALS
#define RENEWALS 1
#endif
#ifndef WRITES
#define WRITES 0
#endif
#ifndef DATES
#define DATES 0                 /* so many ticks of a calendar; 0: nobody looks at the date */
#endif

/* ===== Witnesses ===== */

/* A witness is a state that must be reachable, or a proof says nothing: see `seen`. */
#define GRANT 1                 /* somebody was granted the lock */
#define SECOND_GRANT 2          /* and then again (with TENURES=1: somebody else) */
#define RENEWAL 3               /* the server renewed, and the client heard it in time */
#define LATE_GRANT 4            /* a yes came when the lease was over */
#define LATE_RENEWAL 5          /* a renewal was heard after the hold had been lost */
#define LATE_RELEASE 6          /* a release arrived when a later tenure held the lock */
#define FENCED_WRITE 7          /* the storage refused a write */
#define SEEDED_TOKEN 8          /* a lost counter began with the date */
#define LATER_TENURE 9          /* a client was granted the lock in its second tenure */
#ifndef WITNESS
#define WITNESS 0
#endif

/* ===== The server ===== */

#define NOBODY 0
#define TENURE(client, number) (1 + (client) * TENURES + (number))
#define CLIENT_OF(tenure) (((tenure) - 1) / TENURES)
#define NAME(tenure) CLIENT_OF(tenure), ((tenure) - 1) % TENURES  /* in the story */
#define BIT(tenure) (1 << (tenure))
#define TENURES_IN_ALL (2 * TENURES)

byte key_owner;                 /* NOBODY or a tenure */
byte key_left;                  /* ticks until it expires */
byte counter;                   /* of tokens; 0: there is none */
byte away;                      /* ticks until a restarted server is used again */
byte date;                      /* in ticks, at the server */

/* ===== The network: sets of tenures ===== */

short acquire_sent, acquire_repeated, renew_sent, release_sent;
short acquire_granted;          /* answers */
byte answered_token[TENURES_IN_ALL + 1];
bool renewed[2];                /* the answer to the client's last renewal */

byte write_token[2], write_grant[2];  /* a write on its way to the storage; 0: none */

/* ===== The clients, as far as clocks and others are concerned ===== */

#define IDLE 255

byte elapsed[2] = IDLE;         /* ticks since the client sent its request, by its clock */
byte valid[2];                  /* ticks that it believes to hold the lock yet; 0: it does not */
bool told_lost[2];              /* the hold ended by the clock, and its owner was told */
byte since_slip = LEASE;        /* ticks since the clock of client 0 lost one */

/* ===== For the properties alone ===== */

byte granted_token;             /* the last token granted */
byte grants;                    /* how many, to know their order without trusting tokens */
byte stored_token, stored_grant;  /* of the last write that the storage accepted */

/* What must never be. They are set just before the assertion, so that it names itself. */
bool two_holders, foreign_hold_touched, token_repeated, stale_write, lost_hold_revived;

/* Fails in the search for this witness, and only there. */
inline seen(what)
{
    assert(WITNESS != what)
}

/* ===== Time ===== */

#define AGED(ticks) ((ticks) > 0 -> (ticks) - 1 : 0)

inline age_server()
{
    key_left = AGED(key_left);
    away = AGED(away);
    if
    :: key_left == 0 -> key_owner = NOBODY
    :: else
    fi;
    date = date + (DATES > 0)
}

inline age_client(c)
{
    if
    :: valid[c] == 1 ->
        told_lost[c] = true;
        printf("client %d: is told that its hold is lost\n", c)
    :: else
    fi;
    valid[c] = AGED(valid[c]);
    if
    :: elapsed[c] < LEASE -> elapsed[c]++
    :: else                     /* idle, or too late already */
    fi
}

#define MAY_SLIP (!CLIENT_CLOCK_RUNS || (!CLIENT_CLOCK_EXACT && since_slip == LEASE))

active proctype Time()
{
end:
    do
    :: d_step {
           DATES == 0 || date < DATES;
           age_server();
           age_client(0);
           age_client(1);
           since_slip = (since_slip < LEASE -> since_slip + 1 : LEASE);
           printf("-- a tick --\n")
       }
    :: d_step {
           MAY_SLIP && (DATES == 0 || date < DATES);
           age_server();
           age_client(1);
           since_slip = 0;
           printf("-- a tick that client 0 does not notice --\n")
       }
    od
}

/* ===== Misfortunes ===== */

active proctype Jump()
{
end:
    d_step {
        !SERVER_CLOCK_STEADY;
        key_owner = NOBODY;
        key_left = 0;
        printf("server: the clock jumps forward, the key expires\n")
    }
}

/* A restart takes a tick at least: time enough for the date to pass every token given out. */
active proctype Restart()
{
end:
    d_step {
        !SERVER_REMEMBERS && (DATES == 0 || date < DATES);
        key_owner = NOBODY;
        key_left = 0;
        away = GUARD;
        printf("server: restarts empty, is not used for %d ticks\n", away);
        if
        :: !COUNTER_SURVIVES -> counter = 0
        :: else
        fi;
        if
        :: !DATE_GROWS -> date = 0
        :: else
        fi
    }
}

/* ===== What the server does ===== */

#define SAME_OWNER(a, b) ((a) == (b) || (!OWNER_PER_TENURE && CLIENT_OF(a) == CLIENT_OF(b)))
#define HOLDS(tenure) (key_owner != NOBODY && SAME_OWNER(key_owner, tenure))
#define ACQUIRES_IN_A_TICK (2 * TENURES_IN_ALL)

/* Nobody looks at tokens unless there are writes or dates. */
inline next_token()
{
    if
    :: !WRITES && DATES == 0
    :: (WRITES || DATES > 0) && (counter > 0 || !TOKEN_FROM_DATE || DATES == 0) -> counter++
    :: counter == 0 && TOKEN_FROM_DATE && DATES > 0 ->
        counter = date * ACQUIRES_IN_A_TICK + 1;
        if
        :: grants > 0 -> seen(SEEDED_TOKEN)
        :: else
        fi
    fi
}

inline serve_acquire(tenure)
{
    if
    :: key_owner == NOBODY -> next_token(); key_owner = tenure
    :: else                     /* asked again by the same tenure, or held */
    fi;
    if
    :: HOLDS(tenure) ->
        key_left = LEASE;
        acquire_granted = acquire_granted | BIT(tenure);
        answered_token[tenure] = counter;
        printf("server: grants to %d.%d, token %d\n", NAME(tenure), counter)
    :: else -> printf("server: tells %d.%d that it is held\n", NAME(tenure))
    fi
}

inline serve_renewal(tenure)
{
    if
    :: HOLDS(tenure) || (!RENEWAL_LOOKS && key_owner != NOBODY) ->
        printf("server: renews for %d.%d what %d.%d holds\n", NAME(tenure), NAME(key_owner));
        foreign_hold_touched = (key_owner != tenure);
        assert(!foreign_hold_touched);
        key_left = LEASE;
        renewed[CLIENT_OF(tenure)] = true
    :: else
    fi
}

inline serve_release(tenure)
{
    if
    :: HOLDS(tenure) || (!RELEASE_LOOKS && key_owner != NOBODY) ->
        printf("server: releases for %d.%d what %d.%d holds\n", NAME(tenure), NAME(key_owner));
        foreign_hold_touched = (key_owner != tenure);
        assert(!foreign_hold_touched);
        key_owner = NOBODY;
        key_left = 0
    :: key_owner != NOBODY && !HOLDS(tenure) && RELEASE_LOOKS ->
        printf("server: a release of %d.%d finds %d.%d\n", NAME(tenure), NAME(key_owner));
        seen(LATE_RELEASE)
    :: else
    fi
}

/* Whatever is in the network arrives, in any order. */
active proctype Server()
{
    byte tenure;

end:
    do
    :: atomic {
           away == 0;
           select(tenure : 1 .. TENURES_IN_ALL);
           if
           :: acquire_sent & BIT(tenure) ->
               acquire_sent = acquire_sent & ~BIT(tenure);
               acquire_repeated = acquire_repeated | BIT(tenure);
               serve_acquire(tenure)
           :: acquire_repeated & BIT(tenure) ->
               acquire_repeated = acquire_repeated & ~BIT(tenure);
               serve_acquire(tenure)
           :: renew_sent & BIT(tenure) -> serve_renewal(tenure)
           :: release_sent & BIT(tenure) -> serve_release(tenure)
           :: else
           fi;
           tenure = 0
       }
    od
}

/* ===== The storage ===== */

inline accept_write(c)
{
    if
    :: STORAGE_FENCES && write_token[c] < stored_token ->
        printf("storage: refuses the write of client %d, token %d\n", c, write_token[c]);
        seen(FENCED_WRITE)
    :: else ->
        printf("storage: accepts the write of client %d, token %d\n", c, write_token[c]);
        stale_write = (write_grant[c] < stored_grant);
        assert(!stale_write);
        stored_token = write_token[c];
        stored_grant = write_grant[c]
    fi;
    write_token[c] = 0;
    write_grant[c] = 0
}

active proctype Storage()
{
end:
    do
    :: d_step { write_grant[0] > 0 -> accept_write(0) }
    :: d_step { write_grant[1] > 0 -> accept_write(1) }
    od
}

/* ===== A client and its watchdog ===== */

inline check_exclusion()
{
    two_holders = (valid[0] > 0 && valid[1] > 0);
    if
    :: two_holders -> printf("TWO HOLDERS: each within the time it believes to have\n")
    :: else
    fi;
    assert(!two_holders)
}

inline check_token()
{
    token_repeated = (token <= granted_token);
    assert(!token_repeated);
    granted_token = token
}

inline claim()
{
    elapsed[me] = 0;
    acquire_sent = acquire_sent | BIT(TENURE(me, number));
    printf("client %d.%d: asks\n", me, number)
}

inline hear_grant()
{
    token = answered_token[TENURE(me, number)];
    valid[me] = LEASE - MARGIN - (GRANT_FROM_SEND -> elapsed[me] : 0);
    elapsed[me] = IDLE;
    printf("client %d.%d: GRANTED, valid for %d ticks, token %d\n", me, number, valid[me], token);
    check_exclusion();
    seen(GRANT);
    if
    :: WRITES || DATES > 0 -> grants++; my_grant = grants; check_token()
    :: else
    fi;
    if
    :: grants == 2 -> seen(SECOND_GRANT)
    :: else
    fi;
    if
    :: number > 0 -> seen(LATER_TENURE)
    :: else
    fi
}

inline begin_renewal()
{
    elapsed[me] = 0;
    renewed[me] = false;
    renew_sent = renew_sent | BIT(TENURE(me, number));
    printf("client %d.%d: renews\n", me, number)
}

inline hear_renewal()
{
    if
    :: elapsed[me] + MARGIN < LEASE && (valid[me] > 0 || !LOST_IS_FINAL) ->
        valid[me] = LEASE - MARGIN - (RENEW_FROM_SEND -> elapsed[me] : 0);
        printf("client %d.%d: RENEWED, valid for %d ticks\n", me, number, valid[me]);
        lost_hold_revived = told_lost[me];
        assert(!lost_hold_revived);
        check_exclusion();
        seen(RENEWAL)
    :: else -> seen(LATE_RENEWAL)
    fi
}

inline release()
{
    release_sent = release_sent | BIT(TENURE(me, number));
    printf("client %d.%d: releases\n", me, number);
    valid[me] = 0;
    elapsed[me] = IDLE;
    told_lost[me] = false;
    renewed[me] = false;
    token = 0;
    my_grant = 0;
    number++
}

#define YES_HEARD (acquire_granted & BIT(TENURE(me, number)))
#define IN_TIME (!GRANT_FROM_SEND || elapsed[me] + MARGIN < LEASE)

proctype Client(byte me)
{
    byte number, token, my_grant;

end_idle:
    atomic { number < TENURES -> claim() };

    if
    :: atomic { YES_HEARD && IN_TIME -> hear_grant() }
    :: atomic { YES_HEARD && !IN_TIME -> seen(LATE_GRANT); goto over }
    :: atomic { true -> goto over }                 /* gives up */
    fi;

held:
    if
    :: atomic { RENEWALS && valid[me] > 0 -> begin_renewal() };
        if
        :: atomic { renewed[me] -> hear_renewal() }
        :: true                                     /* hears nothing */
        fi;
        atomic { elapsed[me] = IDLE; renewed[me] = false; goto held }
    :: atomic {                                     /* looks at the clock, then sends a write */
           WRITES && valid[me] > 0 && write_grant[me] == 0;
           write_token[me] = token;
           write_grant[me] = my_grant;
           printf("client %d.%d: sends a write, token %d\n", me, number, token);
           goto held
       }
    :: atomic { true -> goto over }
    fi;

over:
    atomic { release(); goto end_idle }
}

init
{
    atomic { run Client(0); run Client(1) }
}
