/* SPDX-License-Identifier: Apache-2.0 */
/* Redisson and we on the same locks, in both directions: who excludes whom, who wakes whom, and
 * what each learns when the other takes a lock away or dies.
 *
 * One redis-server and one Java process serve all cases; every case begins with an empty server.
 * Run by run.sh, which says where Redisson is. An argument is a pattern for the names of cases. */
#include "common.h"

struct server *server;
struct peer *java;

/* Can this build keep locks of that kind? */
static bool is_there(pawl_kind kind)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = kind;
    const pawl_status status = pawl_client_open(server_url(server), NULL, &client) == PAWL_OK
                                   ? pawl_lock_open(client, "is-there", &options, &lock)
                                   : PAWL_UNAVAILABLE;
    pawl_lock_close(lock);
    pawl_client_close(client);
    return status != PAWL_UNSUPPORTED;
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"victim", victim_body}};
    child_dispatch(argc, argv, roles, 1);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    server = server_start(NULL);
    java = peer_start(server_url(server), WATCHDOG_MS);
    const char *wanted = getenv("PAWL_INTEROP_VERSION");
    if (wanted != NULL && strcmp(wanted, peer_version(java)) != 0) {
        fprintf(stderr, "this is Redisson %s, not %s\n", peer_version(java), wanted);
        return 1;
    }
    int failed = run_mutex_cases();
    failed += run_loss_cases();
    failed += run_fenced_cases();
    failed += run_multi_cases();
    failed += run_tally_cases();
    failed += is_there(PAWL_SPIN) ? run_spin_cases() : 0;
    failed += is_there(PAWL_FAIR) ? run_fair_cases() : 0;
    failed += is_there(PAWL_WRITE) ? run_shared_cases() : 0;
    return failed == 0 ? 0 : 1;
}
