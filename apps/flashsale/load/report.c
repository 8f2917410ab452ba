/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. */
#include "load/report.h"

#include "common/say.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const char *const answer_words[ANSWERS] = {
    [ANSWER_SOLD] = "sold",
    [ANSWER_SOLD_OUT] = "sold out",
    [ANSWER_BUSY] = "busy",
    [ANSWER_REFUSED] = "refused",
    [ANSWER_ERROR] = "errors",
};
static const char *const answer_keys[ANSWERS] = {
    [ANSWER_SOLD] = "sold",
    [ANSWER_SOLD_OUT] = "sold_out",
    [ANSWER_BUSY] = "busy",
    [ANSWER_REFUSED] = "refused",
    [ANSWER_ERROR] = "errors",
};

/* The keys in JSON, and what to tell the user. */
static const struct {
    const char *key;
    const char *sentence;
} troubles[TROUBLES] = {
    [TROUBLE_REFUSED] = {"connection_refused",
        "found nobody listening: a shop has ended or was never started (flashsale serve)"},
    [TROUBLE_CLOSED] = {"connection_closed",
        "were cut off before their answer: a shop has ended, or a proxy has run out of connections "
        "(nginx: worker_connections, see its error log) and this run says nothing about the shop"},
    [TROUBLE_TIMEOUT] = {"timeout",
        "got no answer in time: the shop is stuck, or --timeout is shorter than its --wait"},
    [TROUBLE_NOT_HTTP] = {"not_http", "were answered by something that is no HTTP server"},
    [TROUBLE_FILES] = {"no_descriptor",
        "found no file descriptor left in this process: raise `ulimit -n`, or use fewer --clients"},
    [TROUBLE_PORTS] = {"no_port",
        "found no port left on this machine: wait a minute, use fewer connections, or widen "
        "net.ipv4.ip_local_port_range"},
    [TROUBLE_OTHER] = {"other", "failed for another reason of the network"},
};

double report_rate(const struct report *report)
{
    return report->selling_seconds > 0 ? (double)report->sold_in_time / report->selling_seconds : 0;
}

static const struct histogram *telling(const struct outcome *outcome)
{
    return outcome->sold.total > 0 ? &outcome->sold : &outcome->all;
}

double report_p99_ms(const struct report *report)
{
    return (double)histogram_at(telling(report->outcome), 0.99) / 1e3;
}

/* ===== For people ===== */

static void print_latency(const char *of, const struct histogram *histogram)
{
    if (histogram->total == 0) {
        return;
    }
    printf("%-10s  p50 %.2f   p90 %.2f   p99 %.2f   p99.9 %.2f   max %.2f ms\n", of,
        (double)histogram_at(histogram, 0.5) / 1e3, (double)histogram_at(histogram, 0.9) / 1e3,
        (double)histogram_at(histogram, 0.99) / 1e3, (double)histogram_at(histogram, 0.999) / 1e3,
        (double)histogram->max_us / 1e3);
}

static void print_ports(const struct outcome *outcome)
{
    if (outcome->ports[0].port == 0) {
        return;
    }
    printf("%-10s", "by port");
    for (size_t i = 0; i < LOAD_PORTS && outcome->ports[i].port != 0; i++) {
        printf(
            "%s %ld: %" PRIu64, i > 0 ? "," : " ", outcome->ports[i].port, outcome->ports[i].sold);
    }
    printf("\n");
}

static void print_state(const char *item, const struct item_state *state)
{
    if (!state->is_known) {
        return;
    }
    printf("item %s: %" PRId64 " of %" PRId64 " sold, %" PRId64 " left: ", item, state->sold,
        state->initial, state->left);
    if (state->oversold > 0) {
        printf("oversold by %" PRId64 "\n", state->oversold);
    } else if (state->sold + state->left < state->initial) {
        printf("%" PRId64 " missing\n", state->initial - state->sold - state->left);
    } else {
        printf("exact\n");
    }
}

void report_print(const struct report *report)
{
    const struct outcome *outcome = report->outcome;
    printf("%" PRIu64 " of %" PRId64 " orders in %.2f s, %" PRId64 " connections to %zu shop%s\n",
        outcome_total(outcome), report->orders, report->seconds, report->connections, report->shops,
        report->shops == 1 ? "" : "s");
    printf("%-10s  %" PRIu64 "  (%.0f a second)\n", "sold", outcome->answers[ANSWER_SOLD],
        report_rate(report));
    for (size_t i = ANSWER_SOLD + 1; i < ANSWERS; i++) {
        if (outcome->answers[i] > 0) {
            printf("%-10s  %" PRIu64 "\n", answer_words[i], outcome->answers[i]);
        }
    }
    if (report->unanswered > 0) {
        printf("%-10s  %" PRId64 "\n", "unanswered", report->unanswered);
    }
    print_ports(outcome);
    print_latency("sold after", &outcome->sold);
    if (outcome->all.total > outcome->sold.total) {
        print_latency("answered", &outcome->all);
    }
    if (outcome->sold.total > 0) {
        printf("longest time without a sale: %.0f ms\n", (double)report->stuck_us / 1e3);
    }
    print_state(report->item, &report->state);
    fflush(stdout);
}

void report_explain(const struct report *report)
{
    const struct outcome *outcome = report->outcome;
    for (size_t i = 0; i < TROUBLES; i++) {
        if (outcome->troubles[i] > 0) {
            say("%" PRIu64 " orders %s", outcome->troubles[i], troubles[i].sentence);
        }
    }
    for (int status = 0; status < LOAD_STATUSES; status++) {
        const bool is_fine = status == 200 || status == 201 || status == 409;
        if (outcome->statuses[status] == 0 || is_fine ||
            (status == 503 && outcome->statuses[503] == outcome->answers[ANSWER_BUSY])) {
            continue;
        }
        say("%" PRIu64 " orders were answered with the status %d%s", outcome->statuses[status],
            status,
            status == 404   ? ": PUT the item first, or give --stock"
            : status == 503 ? ", busy ones among them; the shop's Redis may be away"
            : status == 502 ? ": the proxy found no shop behind it"
                            : "");
    }
}

/* ===== JSON ===== */

static json_t *latency_json(const struct histogram *histogram)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "p50", (double)histogram_at(histogram, 0.5) / 1e3,
        "p90", (double)histogram_at(histogram, 0.9) / 1e3, "p99",
        (double)histogram_at(histogram, 0.99) / 1e3, "p99_9",
        (double)histogram_at(histogram, 0.999) / 1e3, "max", (double)histogram->max_us / 1e3,
        "mean", histogram_mean(histogram) / 1e3);
}

static json_t *statuses_json(const struct outcome *outcome)
{
    json_t *object = json_object();
    for (int status = 0; status < LOAD_STATUSES; status++) {
        if (outcome->statuses[status] > 0) {
            char key[12];
            snprintf(key, sizeof key, "%d", status);
            json_object_set_new(object, key, json_integer((json_int_t)outcome->statuses[status]));
        }
    }
    return object;
}

static json_t *troubles_json(const struct outcome *outcome)
{
    json_t *object = json_object();
    for (size_t i = 0; i < TROUBLES; i++) {
        if (outcome->troubles[i] > 0) {
            json_object_set_new(
                object, troubles[i].key, json_integer((json_int_t)outcome->troubles[i]));
        }
    }
    return object;
}

static json_t *ports_json(const struct outcome *outcome)
{
    json_t *object = json_object();
    for (size_t i = 0; i < LOAD_PORTS && outcome->ports[i].port != 0; i++) {
        char key[24];
        snprintf(key, sizeof key, "%ld", outcome->ports[i].port);
        json_object_set_new(object, key, json_integer((json_int_t)outcome->ports[i].sold));
    }
    return object;
}

static json_t *state_json(const struct item_state *state)
{
    if (!state->is_known) {
        return json_null();
    }
    return json_pack("{s:I,s:I,s:I,s:I}", "initial", (json_int_t)state->initial, "left",
        (json_int_t)state->left, "sold", (json_int_t)state->sold, "oversold",
        (json_int_t)state->oversold);
}

bool report_print_json(const struct report *report)
{
    const struct outcome *outcome = report->outcome;
    json_t *object = json_pack("{s:s,s:s?,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f}", "item", report->item,
        "strategy", report->strategy, "clients", (json_int_t)report->connections, "requests",
        (json_int_t)report->orders, "answered", (json_int_t)outcome->all.total, "unanswered",
        (json_int_t)report->unanswered, "seconds", report->seconds, "rate", report_rate(report),
        "p99_ms", report_p99_ms(report), "stuck_ms", (double)report->stuck_us / 1e3);
    if (!object) {
        return false;
    }
    for (size_t i = 0; i < ANSWERS; i++) {
        json_object_set_new(object, answer_keys[i], json_integer((json_int_t)outcome->answers[i]));
    }
    json_object_set_new(object, "statuses", statuses_json(outcome));
    json_object_set_new(object, "troubles", troubles_json(outcome));
    json_object_set_new(object, "ports", ports_json(outcome));
    json_object_set_new(object, "sold_ms", latency_json(&outcome->sold));
    json_object_set_new(object, "answered_ms", latency_json(&outcome->all));
    json_object_set_new(object, "audit", state_json(&report->state));
    const bool printed =
        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0 && puts("") >= 0;
    json_decref(object);
    return fflush(stdout) == 0 && printed;
}
