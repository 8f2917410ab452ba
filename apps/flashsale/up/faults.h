/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the servers, on demand. Those of an instance (die, stop, slow) are its own business.
 */
#ifndef FLASHSALE_UP_FAULTS_H
#define FLASHSALE_UP_FAULTS_H

#include <stddef.h>

#define ANSWER_SIZE 320 /* with the end of the line */

struct house;

/* Carries out what the name says. The answer is one line: "ok <what happened>" or "error <why not,
 * and the remedy>". */
void fault_strike(struct house *house, const char *name, char answer_out[ANSWER_SIZE]);

#endif
