/* SPDX-License-Identifier: Apache-2.0 */
/* See outcome.h. The answers' JSON is short and our own, so that a search for a word in quotes is
 * enough; a load that parses thousands of answers a second takes the cores from the shop. */
#include "load/outcome.h"

#include <stdlib.h>
#include <string.h>

static enum answer judge(int status, const char *body)
{
    switch (status) {
    case 200:
    case 201:
        return ANSWER_SOLD;
    case 409:
        return strstr(body, "\"sold out\"") ? ANSWER_SOLD_OUT : ANSWER_REFUSED;
    case 503:
        return strstr(body, "\"busy\"") ? ANSWER_BUSY : ANSWER_ERROR;
    default:
        return ANSWER_ERROR;
    }
}

/* The port in {"port":3786}; 0: none. */
static long port_of(const char *body)
{
    static const char key[] = "\"port\":";
    const char *found = strstr(body, key);
    return found ? strtol(found + sizeof key - 1, NULL, 10) : 0;
}

static void add_port(struct outcome *outcome, long port, uint64_t sold)
{
    for (size_t i = 0; port > 0 && i < LOAD_PORTS; i++) {
        if (outcome->ports[i].port == port || outcome->ports[i].port == 0) {
            outcome->ports[i].port = port;
            outcome->ports[i].sold += sold;
            return;
        }
    }
}

enum answer outcome_answer(struct outcome *outcome, int status, const char *body, int64_t took_us)
{
    const enum answer answer = judge(status, body);
    outcome->answers[answer]++;
    outcome->statuses[status >= 0 && status < LOAD_STATUSES ? status : 0]++;
    histogram_add(&outcome->all, took_us);
    if (answer == ANSWER_SOLD) {
        histogram_add(&outcome->sold, took_us);
        add_port(outcome, port_of(body), 1);
    }
    return answer;
}

void outcome_trouble(struct outcome *outcome, enum trouble trouble)
{
    outcome->answers[ANSWER_ERROR]++;
    outcome->troubles[trouble]++;
}

void outcome_merge(struct outcome *into, const struct outcome *from)
{
    for (size_t i = 0; i < ANSWERS; i++) {
        into->answers[i] += from->answers[i];
    }
    for (size_t i = 0; i < LOAD_STATUSES; i++) {
        into->statuses[i] += from->statuses[i];
    }
    for (size_t i = 0; i < TROUBLES; i++) {
        into->troubles[i] += from->troubles[i];
    }
    for (size_t i = 0; i < LOAD_PORTS && from->ports[i].port != 0; i++) {
        add_port(into, from->ports[i].port, from->ports[i].sold);
    }
    histogram_merge(&into->all, &from->all);
    histogram_merge(&into->sold, &from->sold);
}

uint64_t outcome_total(const struct outcome *outcome)
{
    uint64_t total = 0;
    for (size_t i = 0; i < ANSWERS; i++) {
        total += outcome->answers[i];
    }
    return total;
}
