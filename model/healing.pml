/* SPDX-License-Identifier: Apache-2.0
 *
 * Redlock, healing: may a holder that asks again for parts of its hold that vanished go on as if
 * nothing had been?
 *
 * One holder has the lock at NODES servers. Parts of it vanish, any of them, any number of times:
 * a key is deleted, a server forgets. The holder finds that out when it renews that part, any time
 * later, and asks for it again. Another client takes what is free, at one node after the other, and
 * gives back what it has; when it has a majority, it was inside while the holder thought that it
 * was, too. That cannot be helped; but the holder must find out, and not renew for ever what it
 * no longer has. There are no clocks here: a hold that is not renewed ends by its lease.
 *
 * What a node does and what the holder hears of it are one step, so a part that is granted again is
 * a newcomer from that moment on; in pawl it is one from a later moment on, which is stricter.
 */

/* ===== Size ===== */

#ifndef NODES
#define NODES 3                 /* 3 to 5 */
#endif

/* ===== What the lock does about it: 1 as pawl, 0 left out ===== */

#ifndef QUORUM
#define QUORUM (NODES / 2 + 1)  /* parts that make a hold */
#endif
#ifndef NEWCOMERS_WAIT
#define NEWCOMERS_WAIT 1        /* 0: what is granted again is a part at once */
#endif

/* ===== Witnesses ===== */

#define HEALED 1                /* a newcomer became a part */
#define OVERTAKEN 2             /* the other client had a majority */
#define FOUND_OUT 3             /* and the holder knows that its hold is lost */
#ifndef WITNESS
#define WITNESS 0
#endif

/* ===== The world ===== */

#define NOBODY 0
#define HOLDER 1
#define OTHER 2

#define BIT(node) (1 << (node))
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))
#define HAS(set, node) ((set) >> (node) & 1)
#define ALL ((1 << NODES) - 1)

byte key_owner[NODES] = HOLDER;
byte parts = ALL;               /* that count, as far as the holder knows */
byte newcomers;                 /* granted again, and not counted yet */
byte proven[NODES];             /* of a newcomer: the parts that were renewed since its grant */
byte taken;                     /* the other client's */
bool lost;                      /* and the holder knows */

bool overtaken;                 /* the other client has had a majority meanwhile, */
byte renewed;                   /* and so many parts were renewed since */

/* What must never be: a majority is renewed as if nothing had been. */
bool loss_hidden;

/* Fails in the search for this witness, and only there. */
inline seen(what)
{
    assert(WITNESS != what)
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

/* ===== Misfortunes ===== */

inline vanish(n)
{
    key_owner[n] == HOLDER;
    key_owner[n] = NOBODY;
    printf("node %d: the holder's part vanishes\n", n)
}

active proctype Misfortune()
{
end:
    do
    AT_SOME_NODE(vanish)
    od
}

/* ===== The other client ===== */

inline take(n)
{
    key_owner[n] == NOBODY;
    key_owner[n] = OTHER;
    taken = taken | BIT(n);
    printf("node %d: yes to the other client\n", n);
    if
    :: COUNT(taken) >= QUORUM && !lost ->
        overtaken = true;
        renewed = 0;
        printf("the other client is INSIDE\n");
        seen(OVERTAKEN)
    :: else
    fi
}

inline give(n)
{
    key_owner[n] == OTHER;
    key_owner[n] = NOBODY;
    taken = taken & (ALL - BIT(n));
    printf("node %d: released by the other client\n", n)
}

active proctype Other()
{
end:
    do
    AT_SOME_NODE(take)
    AT_SOME_NODE(give)
    od
}

/* ===== The holder ===== */

inline find_gone(n)
{
    parts = parts & (ALL - BIT(n));
    newcomers = newcomers & (ALL - BIT(n));
    renewed = renewed & (ALL - BIT(n));
    proven[n] = 0;
    printf("node %d: the holder finds its part gone\n", n);
    if
    :: COUNT(parts) < QUORUM ->
        lost = true;
        printf("the holder: LOST\n");
        if
        :: overtaken -> seen(FOUND_OUT)
        :: else
        fi
    :: else
    fi
}

inline prove(n)
{
    printf("node %d: renewed for the holder\n", n);
    for (i : 0 .. NODES - 1) {
        proven[i] = (HAS(newcomers, i) && HAS(parts, n) -> proven[i] | BIT(n) : proven[i])
    };
    i = 0;
    renewed = (overtaken && HAS(parts, n) -> renewed | BIT(n) : renewed);
    loss_hidden = (COUNT(renewed) >= QUORUM);
    assert(!loss_hidden)
}

inline renew(n)
{
    !lost && HAS(parts | newcomers, n);
    if
    :: key_owner[n] == HOLDER -> prove(n)
    :: else -> find_gone(n)
    fi
}

inline heal(n)
{
    !lost && !HAS(parts | newcomers, n) && key_owner[n] == NOBODY;
    key_owner[n] = HOLDER;
    printf("node %d: yes to the holder again\n", n);
    if
    :: NEWCOMERS_WAIT -> newcomers = newcomers | BIT(n)
    :: else -> parts = parts | BIT(n)
    fi
}

inline join(n)
{
    !lost && HAS(newcomers, n) && COUNT(proven[n]) >= QUORUM;
    newcomers = newcomers & (ALL - BIT(n));
    parts = parts | BIT(n);
    proven[n] = 0;
    printf("node %d: counts again\n", n);
    seen(HEALED)
}

active proctype Holder()
{
    byte i;

end:
    do
    AT_SOME_NODE(renew)
    AT_SOME_NODE(heal)
    AT_SOME_NODE(join)
    od
}
