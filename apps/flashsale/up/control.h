/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: a unix socket on which a line asks for a fault and a line answers. Instances
 * pass on what their page's buttons ask for; `nc -U` does as well.
 */
#ifndef FLASHSALE_UP_CONTROL_H
#define FLASHSALE_UP_CONTROL_H

#include <stdbool.h>

struct house;

/* Listens at house->control_path. */
bool control_open(struct house *house);

/* Answers one who is waiting, if there is one. */
void control_answer(struct house *house);

#endif
