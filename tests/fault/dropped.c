/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 17 once more, with a kernel that drops the packets: no proxy in between answers
 * for a peer that is not there, TCP sends again and again, and what was dropped may still arrive
 * when the line is up.
 *
 * The program starts itself again in a network of its own, where only root may go, and tells nft
 * there which packets to drop: those to the server, those from it, or all. */
#include "fault/lib/fault.h"

enum {
    LEASE_MS = 400,
    TIMEOUT_MS = 250,
    DARK_MS = 1000,
    TOOL_MS = 60000, /* the kernel changes its rules when all processors have looked up */
};

#define ALONE "--alone"
#define CHAIN "inet pawl input"

static void run_tool(const char *const argv[])
{
    struct child *child = child_spawn(argv);
    const int code = child_wait(child, TOOL_MS);
    child_free(child);
    if (code != 0) {
        support_fail("%s ended with %d", argv[0], code);
    }
}

static bool has_tool(const char *name)
{
    char *path = find_program(name);
    const bool found = path != NULL;
    free(path);
    return found;
}

/* Being root is not always enough. */
static bool may_enter(void)
{
    const char *const argv[] = {"unshare", "-n", "true", NULL};
    struct child *child = child_spawn(argv);
    const int code = child_wait(child, 10000);
    child_free(child);
    return code == 0;
}

/* ===== In the network of its own ===== */

static int begin_network(void **state)
{
    (void)state;
    static const char *const up[] = {"ip", "link", "set", "lo", "up", NULL};
    static const char *const table[] = {"nft", "add table inet pawl", NULL};
    static const char *const chain[] = {
        "nft", "add chain " CHAIN " { type filter hook input priority 0; }", NULL};
    run_tool(up);
    run_tool(table);
    run_tool(chain);
    return 0;
}

static void drop(const char *side, uint16_t port)
{
    char rule[96];
    snprintf(rule, sizeof rule, "add rule " CHAIN " tcp %s %u drop", side, (unsigned)port);
    const char *const argv[] = {"nft", rule, NULL};
    run_tool(argv);
}

static void drop_nothing(void)
{
    static const char *const argv[] = {"nft", "flush chain " CHAIN, NULL};
    run_tool(argv);
}

static struct crew *hire(const char *url)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = LEASE_MS;
        plan->timeout_ms = TIMEOUT_MS;
        plan->wait_ms = 500;
        plan->callers = i == 2 ? 1 : 2;
        plan->name_first = i == 2 ? 2 : 0; /* one is inside whenever it happens */
        plan->name_count = i == 2 ? 1 : 2;
        plan->work_us = i == 2 ? 2000000 : 5000;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

static void go_dark(bool to_server, bool to_client)
{
    struct server *server = server_start(NULL);
    struct crew *crew = hire(server_url(server));
    for (int i = 0; i < 2; i++) {
        nap_ms((int64_t)crew_draw(crew, 50));
        if (to_server) {
            drop("dport", server_port(server));
        }
        if (to_client) {
            drop("sport", server_port(server));
        }
        nap_ms(DARK_MS);
        drop_nothing();
        crew_await_progress(crew, boottime_us(), 5000 * PACE);
    }
    check_all_after_losses(crew, server, LEASE_MS);
    assert_true(crew_count_told(crew) >= 1);
    assert_int_equal(crew_count_told(crew), crew_count_releases(crew, PAWL_LOST));
}

static void no_packet_passes(void **state)
{
    (void)state;
    go_dark(true, true);
}

static void no_packet_reaches_the_server(void **state)
{
    (void)state;
    go_dark(true, false);
}

static void no_packet_reaches_the_clients(void **state)
{
    (void)state;
    go_dark(false, true);
}

static int run_alone(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_packet_passes, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            no_packet_reaches_the_server, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(
            no_packet_reaches_the_clients, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, begin_network, NULL);
}

/* ===== Outside ===== */

/* Replace this process: what the tests inside print is counted as it stands. */
static void enter_network(char *program)
{
    char unshare[] = "unshare";
    char option[] = "-n";
    char alone[] = ALONE;
    char *const argv[] = {unshare, option, program, alone, NULL};
    execvp(argv[0], argv);
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], ALONE) == 0) {
        return run_alone();
    }
    if (geteuid() != 0) {
        support_skip_program("only root may make a network of its own");
    }
    if (!has_tool("unshare") || !has_tool("ip") || !has_tool("nft")) {
        support_skip_program("unshare, ip and nft are needed");
    }
    if (may_enter()) {
        enter_network(argv[0]);
    }
    support_skip_program("there is no network of its own to be had");
}
