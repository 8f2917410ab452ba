/* SPDX-License-Identifier: Apache-2.0 */
/* How the test support says that something went wrong, and how it tidies up.
 *
 * Everything the support starts (servers, proxies, children, directories) is registered here with
 * the function that ends it. It ends when the test says so, else in the teardown of the test, else
 * when the program exits, newest first, and only in the process that registered it: a forked child
 * that exits ends nothing of its parent's.
 *
 * Usual form of a test that starts things:
 *     cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)
 * What a group's setup started before is left alone until the program exits. */
#ifndef PAWL_SUPPORT_FAIL_H
#define PAWL_SUPPORT_FAIL_H

#include <stddef.h>

/* Fail the running cmocka test with a message. Call it without holding a mutex: it does not
 * return. In a thread that cmocka does not know it ends the program. */
void support_fail(const char *format, ...) __attribute__((format(printf, 1, 2)))
__attribute__((noreturn));

/* End the whole test program as skipped (exit status 77), with the reason on stderr. */
void support_skip_program(const char *format, ...) __attribute__((format(printf, 1, 2)))
__attribute__((noreturn));

/* Call `end(object)` in the clean-up, unless cleanup_drop(object) comes first. */
void cleanup_add(void (*end)(void *object), void *object);
void cleanup_drop(void *object);

/* Everything registered since the mark is ended. */
size_t cleanup_mark(void);
void cleanup_to(size_t mark);

/* Fixtures for cmocka: remember the mark before the test, clean up to it afterwards. */
int cleanup_setup(void **state);
int cleanup_teardown(void **state);

#endif
