/* SPDX-License-Identifier: Apache-2.0 */
/* Redisson and we on the same locks, in both directions: who excludes whom, who wakes whom, and
 * what each learns when the other takes a lock away or dies.
 *
 * One redis-server and one Java process serve all cases; every case begins with an empty server.
 * Run by run.sh, which says where Redisson is. An argument is a pattern for the names of cases. */
#include "common.h"

struct server *server;
struct peer *java;

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
    failed += run_spin_cases();
    failed += run_fair_cases();
    failed += run_shared_cases();
    return failed == 0 ? 0 : 1;
}
