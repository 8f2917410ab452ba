/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: one thing after the other, drawn from the seed, until the calm part. */
#include "qsim.h"

const char *const qs_fault_names[QS_FAULT_COUNT] = {"resets", "cuts there", "cuts back", "cuts",
    "nodes cut off", "processes cut off", "slow connections", "hangs", "restarts",
    "restarts without data", "deletions", "pauses", "stalls", "clocks set", "times without memory"};

static struct qs_link *any_link(void)
{
    return &qs.links[qs_below(qs.plan.processes)][qs_below(qs.plan.nodes)];
}

/* Short ones, and now and then one that outlasts a lease. */
static int64_t any_duration(void)
{
    const int64_t lease_us = qs.plan.lease_ms * 1000;
    return qs_chance(300) ? qs_between(lease_us / 2, lease_us * 2) : qs_between(1000, lease_us / 2);
}

static void cut(struct qs_link *link, bool up, bool down, int64_t end_us)
{
    link->cut_up_us = up ? pawl__max64(link->cut_up_us, end_us) : link->cut_up_us;
    link->cut_down_us = down ? pawl__max64(link->cut_down_us, end_us) : link->cut_down_us;
}

static void cut_node(const struct qs_node *node, int64_t end_us)
{
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        cut(&qs.links[i][node->number], true, true, end_us);
    }
}

/* From all nodes but one, which may keep it believing. */
static void isolate(const struct qs_process *process, int64_t end_us)
{
    const unsigned but = (unsigned)qs_below(qs.plan.nodes);
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        if (i != but) {
            cut(&qs.links[process->number][i], true, true, end_us);
        }
    }
}

static void stop_node(struct qs_node *node, bool forgets, int64_t duration_us)
{
    if (node->up) {
        qs_node_stop(node, forgets && !node->durable, duration_us);
    }
}

/* The holder hears of one of them later than of the others: it may have got those back by then. */
static void delete_majority(const struct qs_node *first)
{
    const struct qs_process *holder = qs_holder();
    const int64_t lease_us = qs.plan.lease_ms * 1000;
    for (unsigned i = 0; i < qs.plan.nodes / 2 + 1; i++) {
        qs_node_delete(&qs.nodes[(first->number + i) % qs.plan.nodes]);
    }
    if (holder != NULL) {
        cut(&qs.links[holder->number][first->number], false, true,
            qs.now_us + qs_between(lease_us / 4, lease_us));
    }
}

/* One of them, or several at about the same time. */
static void strike_nodes(enum qs_fault fault, struct qs_node *node, int64_t duration_us)
{
    const bool several = qs_chance(fault == QS_DELETE ? 800 : 500);
    if (fault == QS_DELETE && several) {
        delete_majority(node);
        return;
    }
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        struct qs_node *each = &qs.nodes[i];
        if (each != node && (!several || qs_chance(400))) {
            continue;
        }
        if (fault == QS_DELETE) {
            qs_node_delete(each);
        } else {
            stop_node(each, fault == QS_FORGET, duration_us / qs_between(4, 40));
        }
    }
}

/* Of one of them, or of a majority. */
static void set_clocks(const struct qs_node *first)
{
    const unsigned count = qs_chance(500) ? 1 : qs.plan.nodes / 2 + 1;
    for (unsigned i = 0; i < count; i++) {
        qs_node_jump(&qs.nodes[(first->number + i) % qs.plan.nodes]);
    }
}

/* What it has to do meanwhile it may do late. */
static void run_short(unsigned number, int64_t duration_us)
{
    struct qs_process *process = &qs.processes[number];
    process->short_us = pawl__max64(process->short_us, qs.now_us + duration_us);
    process->disturbed_us = pawl__max64(process->disturbed_us, process->short_us);
}

static void inject(enum qs_fault fault)
{
    struct qs_link *link = any_link();
    struct qs_node *node = &qs.nodes[qs_below(qs.plan.nodes)];
    struct qs_process *process = &qs.processes[qs_below(qs.plan.processes)];
    const struct qs_process *holder = qs_holder();
    const int64_t duration_us = any_duration();
    const int64_t end_us = qs.now_us + duration_us;
    if (link->process == NULL) {
        return; /* not opened yet */
    }
    qs.result->faults[fault]++;
    qs_note("fault: %s, p%u, node %u, or link p%u-%u, for %lld us", qs_fault_names[fault],
        process->number, node->number, link->process->number, link->node->number,
        (long long)duration_us);
    switch (fault) {
    case QS_RESET:
        qs_link_reset(link);
        break;
    case QS_CUT_UP:
    case QS_CUT_DOWN:
    case QS_CUT:
        cut(link, fault != QS_CUT_DOWN, fault != QS_CUT_UP, end_us);
        break;
    case QS_CUT_NODE:
        cut_node(node, end_us);
        break;
    case QS_ISOLATE:
        isolate(holder != NULL && qs_chance(600) ? holder : process, end_us);
        break;
    case QS_SLOW:
        link->slow_us = end_us;
        break;
    case QS_HANG:
        node->hung_us = pawl__max64(node->hung_us, end_us);
        break;
    case QS_RESTART:
    case QS_FORGET:
    case QS_DELETE:
        strike_nodes(fault, node, duration_us);
        break;
    case QS_PAUSE:
        qs_pause(process, duration_us);
        break;
    case QS_JUMP:
        set_clocks(node);
        break;
    case QS_SHORT:
        run_short(holder != NULL && qs_chance(500) ? holder->number : process->number, duration_us);
        break;
    case QS_STALL: /* drawn where threads may be switched */
    case QS_FAULT_COUNT:
        break;
    }
}

static void strike(struct qs_event *event)
{
    enum qs_fault fault = (enum qs_fault)qs_below(QS_FAULT_COUNT);
    for (int i = 0; i < QS_FAULT_COUNT && (qs.plan.fault_kinds & 1U << fault) == 0; i++) {
        fault = (fault + 1) % QS_FAULT_COUNT;
    }
    if ((qs.plan.fault_kinds & 1U << fault) != 0 && fault != QS_STALL) {
        inject(fault);
    }
    qs_event_set(event, qs.now_us + qs_between(1, 2 * qs.plan.fault_us), strike);
}

void qs_faults_begin(void)
{
    if (!qs.plan.calm) {
        qs_event_set(&qs.nemesis, qs.now_us + qs_between(1, 2 * qs.plan.fault_us), strike);
    }
}

void qs_faults_end(void)
{
    qs.calm = true;
    qs_event_clear(&qs.nemesis);
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        qs.nodes[i].hung_us = 0;
        for (unsigned j = 0; j < qs.plan.processes; j++) {
            qs.links[j][i].cut_up_us = qs.links[j][i].cut_down_us = qs.links[j][i].slow_us = 0;
            qs.processes[j].paused_us = 0;
            qs.processes[j].short_us = pawl__min64(qs.processes[j].short_us, qs.now_us);
        }
    }
    qs_note("the faults are over");
}
