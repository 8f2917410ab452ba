/* SPDX-License-Identifier: Apache-2.0 */
/* Before the door opens: whether this shop can ever sell as it is set up. */
#ifndef FLASHSALE_SERVE_CHECK_H
#define FLASHSALE_SERVE_CHECK_H

struct shop;

/* EXIT_FINE, or an exit status after it has been said what cannot be. A server that is only not
 * there now is said, too, and keeps nothing from opening: it may come, and orders are told so until
 * it does. WAITS: a second or two for each server that does not answer. */
int check_shop(struct shop *shop);

#endif
