/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a test program, this lets it run one case alone: the one that PAWL_TEST_ONLY
 * names. cmocka has the function for that, but no way to reach it from outside. What the program
 * starts is not concerned. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char only[256]; /* cmocka keeps the pointer */

__attribute__((constructor)) static void choose(void)
{
    void (*filter)(const char *pattern) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "cmocka_set_test_filter");
    const char *name = getenv("PAWL_TEST_ONLY");
    memcpy(&filter, &found, sizeof filter);
    if (filter != NULL && name != NULL && strlen(name) < sizeof only) {
        memcpy(only, name, strlen(name));
        filter(only);
    }
    unsetenv("LD_PRELOAD");
}
