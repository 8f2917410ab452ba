/* SPDX-License-Identifier: Apache-2.0
 *
 * Redlock: CLIENTS clients, NODES servers that know nothing of each other, one lock.
 *
 * A client takes the lock by asking all nodes and hearing yes from a majority before the lease is
 * over; it renews, writes to a storage, and releases, for ever. Time is kept as distances ("the key
 * has 2 ticks left"), never as dates, so neither the running time nor the number of leases has a
 * bound, unless ROUNDS sets one. Every request and every answer may be lost, at each node by
 * itself, and anything may take any time.
 *
 * The switches below are the assumptions. README.md explains them, and what was left out; `check`
 * runs the model with each of them turned off.
 */

/* ===== Size ===== */

#ifndef NODES
#define NODES 3                 /* 3 to 5 */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LEASE
#define LEASE 2                 /* ticks */
#endif
#ifndef ROUNDS
#define ROUNDS 0                /* acquires of each client; 0: no end */
#endif

/* ===== Assumptions about the world: 1 as hoped for, 0 broken ===== */

#ifndef CLIENT_CLOCK_RUNS
#define CLIENT_CLOCK_RUNS 1     /* 0: the clock of client 0 may stand still while time goes on */
#endif
#ifndef NODE_CLOCK_STEADY
#define NODE_CLOCK_STEADY 1     /* 0: the clock of one node jumps forward, once */
#endif
#ifndef NODE_REMEMBERS
#define NODE_REMEMBERS 1        /* 0: nodes restart without the keys they had */
#endif
#ifndef COUNTER_SURVIVES
#define COUNTER_SURVIVES 1      /* 0: a node that restarts loses its token counter, too */
#endif

/* ===== What the lock does about it: 1 as pawl, 0 left out ===== */

#ifndef QUORUM
#define QUORUM (NODES / 2 + 1)  /* votes that make a grant */
#endif
#ifndef ELAPSED_COUNTS
#define ELAPSED_COUNTS 1        /* 0: a grant is believed to last a full lease from the decision */
#endif
#ifndef HOLDER_LOOKS
#define HOLDER_LOOKS 1          /* 0: a holder goes on until it releases, whatever the clock says */
#endif
#ifndef RENEW_FROM_SEND
#define RENEW_FROM_SEND 1       /* 0: a renewed lease is counted from the answer */
#endif
#ifndef GUARD
#define GUARD LEASE             /* ticks that a restarted node has no vote */
#endif
#ifndef STORAGE_FENCES
#define STORAGE_FENCES 1        /* 0: the storage takes every write, whatever its token */
#endif
#ifndef WRITE_BACK
#define WRITE_BACK 1            /* 0: the token is not brought to a majority before the grant */
#endif

/* ===== What happens at all: 0 keeps a search small ===== */

#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef TOKENS
#define TOKENS 0                /* wants ROUNDS: counters only grow */
#endif
#ifndef WRITES
#define WRITES 0                /* wants TOKENS */
#endif

/* ===== Witnesses ===== */

/* A witness is a state that must be reachable, or a proof says nothing: see `seen`. */
#define GRANT 1                 /* somebody was granted the lock */
#define SECOND_GRANT 2          /* and then again (with ROUNDS=1: somebody else) */
#define RENEWAL 3               /* a majority renewed */
#define LATE_MAJORITY 4         /* a majority said yes, but the lease was over by then */
#define FENCED_WRITE 5          /* the storage refused a write */
#define WRITTEN_BACK 6          /* a grant whose token had to be brought to a majority */
#define RESTARTED_VOTE 7        /* a node voted again after its restart */
#ifndef WITNESS
#define WITNESS 0
#endif

/* ===== The world ===== */

#define NOBODY 0
#define OWNER(client) ((client) + 1)
#define BYGONE (CLIENTS + 1)    /* a tenure that is over, but whose key is still there */

#define BIT(node) (1 << (node))
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))
#define HAS(set, node) ((set) >> (node) & 1)
#define IDLE 255

byte key_owner[NODES];          /* NOBODY, OWNER(client) or BYGONE */
byte key_left[NODES];           /* ticks until the key expires, by the clock of the node */
byte away[NODES];               /* ticks until a restarted node votes again */
byte counter[NODES];            /* of tokens */
bool restarted[NODES];          /* for the witness alone */

byte elapsed[CLIENTS] = IDLE;         /* ticks since the client sent its requests, by its clock */
byte valid[CLIENTS];            /* ticks that it believes to hold the lock yet; 0: it does not */

byte granted_token;             /* the greatest token granted so far */
byte grants;                    /* how many, to know their order without trusting tokens */
byte stored_token, stored_grant;  /* of the last write that the storage accepted */

/* What must never be. They are set just before the assertion, so that it names itself. */
bool two_holders, token_repeated, stale_write;

/* Fails in the search for this witness, and only there. */
inline seen(what)
{
    assert(WITNESS != what)
}

/* ===== Time ===== */

#define AGED(ticks) ((ticks) > 0 -> (ticks) - 1 : 0)

inline age_node(n)
{
    key_left[n] = AGED(key_left[n]);
    away[n] = AGED(away[n]);
    if
    :: key_left[n] == 0 -> key_owner[n] = NOBODY
    :: else
    fi
}

inline age_client(c)
{
    if
    :: HOLDER_LOOKS -> valid[c] = AGED(valid[c])
    :: else
    fi;
    if
    :: elapsed[c] < LEASE -> elapsed[c]++
    :: else                     /* idle, or too late already */
    fi
}

active proctype Time()
{
    byte i;

end:
    do
    :: d_step {
           for (i : 0 .. NODES - 1) { age_node(i) };
           for (i : 0 .. CLIENTS - 1) { age_client(i) };
           i = 0;
           printf("-- a tick --\n")
       }
    :: d_step {
           !CLIENT_CLOCK_RUNS;
           for (i : 0 .. NODES - 1) { age_node(i) };
           for (i : 1 .. CLIENTS - 1) { age_client(i) };
           i = 0;
           printf("-- a tick that client 0 does not notice --\n")
       }
    od
}

/* ===== Misfortunes ===== */

active proctype Jump()
{
    byte n;

end:
    atomic {
        !NODE_CLOCK_STEADY;
        select(n : 0 .. NODES - 1);
        key_left[n] = 0;
        key_owner[n] = NOBODY;
        printf("node %d: the clock jumps forward, its key expires\n", n);
        n = 0
    }
}

/* Any node, any number of times if there is no ROUNDS; else once, for the counters' sake. */
active proctype Restart()
{
    byte n;

end:
    do
    :: atomic {
           !NODE_REMEMBERS;
           select(n : 0 .. NODES - 1);
           key_left[n] = 0;
           key_owner[n] = NOBODY;
           away[n] = GUARD;
           restarted[n] = true;
           printf("node %d: restarts empty, has no vote for %d ticks\n", n, away[n]);
           if
           :: !COUNTER_SURVIVES -> counter[n] = 0
           :: else
           fi;
           n = 0;
           if
           :: ROUNDS > 0 -> break
           :: else
           fi
       }
    od
}

/* ===== A client ===== */

#define IN_TIME (!ELAPSED_COUNTS || elapsed[me] < LEASE)
#define TOKEN_IS_SAFE (!TOKENS || !WRITE_BACK || COUNT(have_token) >= QUORUM)

/* The yes of a node reaches the client. */
inline hear_yes(n)
{
    votes = votes | BIT(n);
    if
    :: !TOKENS
    :: TOKENS && counter[n] > token -> token = counter[n]; have_token = BIT(n)
    :: TOKENS && counter[n] == token -> have_token = have_token | BIT(n)
    :: TOKENS && counter[n] < token
    fi;
    if
    :: restarted[n] -> seen(RESTARTED_VOTE)
    :: else
    fi
}

/* One node gets the acquire. That it says no, or never gets it, needs no step of its own. */
inline ask(n)
{
    key_owner[n] == NOBODY && away[n] == 0 && elapsed[me] < LEASE;
    key_owner[n] = OWNER(me);
    key_left[n] = LEASE;
    counter[n] = counter[n] + TOKENS;
    if
    :: printf("node %d: yes to client %d, token %d\n", n, me, counter[n]); hear_yes(n)
    :: printf("node %d: yes to client %d, but the answer is lost\n", n, me)
    fi
}

/* One node that voted gets the token that won, and says so. */
inline write_back(n)
{
    !TOKEN_IS_SAFE && away[n] == 0 && (votes & BIT(n)) && !(have_token & BIT(n));
    if
    :: counter[n] < token -> counter[n] = token
    :: else
    fi;
    have_token = have_token | BIT(n);
    written_back = true;
    printf("node %d: client %d writes token %d back\n", n, me, token)
}

inline renew_at(n)
{
    key_owner[n] == OWNER(me) && elapsed[me] < LEASE;
    key_left[n] = LEASE;
    if
    :: printf("node %d: renewed for client %d\n", n, me); votes = votes | BIT(n)
    :: printf("node %d: renewed for client %d, but the answer is lost\n", n, me)
    fi
}

inline check_exclusion()
{
    for (i : 0 .. CLIENTS - 1) {
        two_holders = two_holders || (i != me && valid[i] > 0 && valid[me] > 0)
    };
    i = 0;
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

inline grant()
{
    valid[me] = (ELAPSED_COUNTS -> LEASE - elapsed[me] : LEASE);
    elapsed[me] = IDLE;
    if
    :: TOKENS && WRITE_BACK && written_back -> seen(WRITTEN_BACK)
    :: else
    fi;
    votes = 0;
    have_token = 0;
    written_back = false;
    printf("client %d: GRANTED, valid for %d ticks, token %d\n", me, valid[me], token);
    seen(GRANT);
    check_exclusion();
    if
    :: TOKENS -> check_token(); grants++; my_grant = grants
    :: else
    fi;
    if
    :: grants == 2 -> seen(SECOND_GRANT)
    :: else
    fi
}

inline release()
{
    valid[me] = 0;
    elapsed[me] = IDLE;
    votes = 0;
    token = 0;
    have_token = 0;
    written_back = false;
    my_grant = 0;
    i = 0;
    do
    :: i < NODES && key_owner[i] != OWNER(me) -> i++
    :: i < NODES && key_owner[i] == OWNER(me) ->
        printf("node %d: released by client %d\n", i, me);
        key_owner[i] = NOBODY; key_left[i] = 0; i++
    :: i < NODES && key_owner[i] == OWNER(me) ->
        printf("node %d: the release of client %d is lost\n", i, me);
        key_owner[i] = BYGONE; i++
    :: i == NODES -> break
    od;
    i = 0
}

inline write()
{
    if
    :: STORAGE_FENCES && token < stored_token ->
        printf("storage: refuses the write of client %d, token %d\n", me, token);
        seen(FENCED_WRITE)
    :: else ->
        printf("storage: accepts the write of client %d, token %d\n", me, token);
        stale_write = (my_grant < stored_grant);
        assert(!stale_write);
        stored_token = token;
        stored_grant = my_grant
    fi
}

/* Do `what` at some node where it can be done. */
#if NODES == 3
#define AT_SOME_NODE(what) AT(0, what) AT(1, what) AT(2, what)
#elif NODES == 4
#define AT_SOME_NODE(what) AT(0, what) AT(1, what) AT(2, what) AT(3, what)
#else
#define AT_SOME_NODE(what) AT(0, what) AT(1, what) AT(2, what) AT(3, what) AT(4, what)
#endif
#define AT(node, what) :: atomic { what(node) }

proctype Client(byte me)
{
    byte votes, token, have_token, my_grant, i, round;
    bool written_back;          /* for the witness alone */

end_idle:
    atomic {
        ROUNDS == 0 || round < ROUNDS;
        round = round + (ROUNDS > 0);
        elapsed[me] = 0;
        printf("client %d: asks all nodes\n", me)
    };

    do
    AT_SOME_NODE(ask)
    :: atomic { COUNT(votes) < QUORUM -> printf("client %d: gives up\n", me); goto over }
    :: atomic { COUNT(votes) >= QUORUM -> break }
    od;

    do
    :: atomic { !IN_TIME -> seen(LATE_MAJORITY); goto over }
    :: atomic { IN_TIME && TOKEN_IS_SAFE -> grant(); break }
    AT_SOME_NODE(write_back)
    od;

held:
    if
    :: atomic { RENEWALS && valid[me] > 0 -> elapsed[me] = 0; printf("client %d: renews\n", me) };
        do
        AT_SOME_NODE(renew_at)
        :: atomic { COUNT(votes) < QUORUM -> break }
        :: atomic {
               COUNT(votes) >= QUORUM ->
               if
               :: valid[me] > 0 && elapsed[me] < LEASE ->
                   valid[me] = (RENEW_FROM_SEND -> LEASE - elapsed[me] : LEASE);
                   printf("client %d: RENEWED, valid for %d ticks\n", me, valid[me]);
                   seen(RENEWAL);
                   check_exclusion()
               :: else          /* lost meanwhile */
               fi;
               break
           }
        od;
        atomic { elapsed[me] = IDLE; votes = 0; goto held }
    :: atomic {
           WRITES && valid[me] > 0;
           printf("client %d: sends a write, token %d\n", me, token)
       };
        atomic { write(); goto held }   /* which lands any time after the look at the clock */
    :: atomic { true -> goto over }
    fi;

over:
    atomic { release(); goto end_idle }
}

init
{
    byte c;

    atomic {
        for (c : 0 .. CLIENTS - 1) { run Client(c) }
    }
}
