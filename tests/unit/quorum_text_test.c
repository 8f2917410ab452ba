/* SPDX-License-Identifier: Apache-2.0 */
/* Which server said what: sentences about votes that a test makes up. */
#include "base/clock.h"
#include "base/error.h"
#include "compound/quorum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MS_US = 1000 };

static struct pawl__quorum quorum;
static struct pawl__node nodes[PAWL__QUORUM_MAX];
static struct pawl__ballot ballots[PAWL__QUORUM_MAX];
static struct pawl__panel panel;

/* So many servers, none of which has answered. */
static void convene(size_t count)
{
    static char name[] = "jobs";
    memset(&quorum, 0, sizeof quorum);
    quorum.name = name;
    quorum.count = count;
    quorum.node_timeout_us = 50 * MS_US;
    panel = (struct pawl__panel){.count = count, .ballots = ballots};
    for (size_t i = 0; i < count; i++) {
        memset(&nodes[i], 0, sizeof nodes[i]);
        nodes[i].quorum = &quorum;
        snprintf(nodes[i].where, sizeof nodes[i].where, "redis://10.0.0.%zu:6379", i + 1);
        ballots[i] = (struct pawl__ballot){.panel = &panel, .node = &nodes[i], .asked_us = MS_US};
    }
}

static void answer(size_t i, enum pawl__vote vote, pawl_status status, char *error)
{
    ballots[i].vote = vote;
    ballots[i].request =
        (struct pawl__request){.kind = PAWL__WANT_ACQUIRE, .status = status, .error = error};
}

static const char *sentence(void)
{
    pawl__quorum_fail_votes(&quorum, &panel, PAWL_UNAVAILABLE, "no majority grants it");
    return pawl__error_text();
}

static void whole_rounds_and_shorter_ones(void **state)
{
    (void)state;
    convene(1);
    panel.expired_us = 51 * MS_US;
    assert_string_equal(sentence(),
        "lock 'jobs': no majority grants it; 1 of 1 servers are needed: "
        "redis://10.0.0.1:6379: no answer within 50 ms");
    panel.expired_us = 50 * MS_US; /* less what passed until it was asked */
    assert_non_null(strstr(sentence(), ": no answer within 49 ms"));
    panel.expired_us = 19 * MS_US;
    assert_non_null(strstr(sentence(), ": no answer in the 18 ms that were left"));
    ballots[0].trouble = (char[]){"cannot connect"};
    assert_non_null(strstr(sentence(), " that were left (before: cannot connect)"));
    panel.expired_us = 0;
    assert_non_null(strstr(sentence(), ": had not answered yet when the others decided it"));
}

/* The longest that a server says, three times. */
static void three_servers_are_not_cut(void **state)
{
    (void)state;
    char error[380];
    char expected[400];
    memset(error, 'x', sizeof error);
    error[sizeof error - 1] = '\0';
    convene(3);
    for (size_t i = 0; i < 3; i++) {
        answer(i, PAWL__VOTE_SILENT, PAWL_REFUSED, error);
    }
    snprintf(expected, sizeof expected, "10.0.0.3:6379: %s", error);
    assert_null(strstr(sentence(), "..."));
    assert_non_null(strstr(sentence(), expected));
}

/* What some leave of their room is for the others; who needs more is cut, and nobody is left out.
 */
static void room_is_shared(void **state)
{
    (void)state;
    char error[380];
    char expected[400];
    memset(error, 'x', sizeof error);
    error[sizeof error - 1] = '\0';
    convene(15);
    for (size_t i = 0; i < 15; i++) {
        answer(i, PAWL__VOTE_NO, PAWL_BUSY, NULL);
    }
    answer(14, PAWL__VOTE_SILENT, PAWL_REFUSED, error);
    snprintf(expected, sizeof expected, "10.0.0.15:6379: %s", error);
    assert_non_null(strstr(sentence(), expected));
    for (size_t i = 0; i < 15; i++) {
        answer(i, PAWL__VOTE_SILENT, PAWL_REFUSED, error);
    }
    assert_non_null(strstr(sentence(), "10.0.0.15:6379: xxx"));
    assert_non_null(strstr(sentence(), "x...; redis://10.0.0.2:6379: x"));
}

/* The name is said once. */
static void refused_for_good(void **state)
{
    (void)state;
    char error[] = "lock 'jobs': the key is something else; choose another name";
    convene(3);
    answer(0, PAWL__VOTE_YES, PAWL_OK, NULL);
    answer(1, PAWL__VOTE_NEVER, PAWL_REFUSED, error);
    answer(2, PAWL__VOTE_NEVER, PAWL_DENIED, NULL);
    assert_int_equal(pawl__quorum_fail_refused(&quorum, &panel), PAWL_REFUSED);
    assert_string_equal(pawl__error_text(),
        "lock 'jobs': the key is something else; choose another name; refused by "
        "redis://10.0.0.2:6379, redis://10.0.0.3:6379, and 2 of 3 servers are needed");
    assert_string_equal(sentence(),
        "lock 'jobs': no majority grants it; 2 of 3 servers are needed: redis://10.0.0.1:6379: "
        "granted; redis://10.0.0.2:6379: the key is something else; choose another name; "
        "redis://10.0.0.3:6379: denied");
}

/* And so is the address, with which a server's own sentence about itself begins. */
static void the_address_is_said_once(void **state)
{
    (void)state;
    char error[] = "10.0.0.1:6379: the server is a replica";
    convene(2);
    answer(0, PAWL__VOTE_SILENT, PAWL_REFUSED, error);
    ballots[1].trouble = (char[]){"10.0.0.2:6379: the server is loading"};
    panel.expired_us = 51 * MS_US;
    assert_string_equal(sentence(),
        "lock 'jobs': no majority grants it; 2 of 2 servers are needed: redis://10.0.0.1:6379: "
        "the server is a replica; redis://10.0.0.2:6379: no answer within 50 ms (before: the "
        "server is loading)");
    snprintf(error, sizeof error, "10.0.0.9:6379: the server moved");
    assert_non_null(strstr(sentence(), "redis://10.0.0.1:6379: 10.0.0.9:6379: the server moved"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_rounds_and_shorter_ones),
        cmocka_unit_test(three_servers_are_not_cut),
        cmocka_unit_test(room_is_shared),
        cmocka_unit_test(refused_for_good),
        cmocka_unit_test(the_address_is_said_once),
    };
    return cmocka_run_group_tests_name("quorum text", tests, NULL, NULL);
}
