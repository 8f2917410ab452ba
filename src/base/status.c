/* SPDX-License-Identifier: Apache-2.0 */
/* The words for the statuses. A switch without a default, so that the compiler names the one that
 * is missing. */
#include "pawl.h"

const char *pawl_status_string(pawl_status status)
{
    switch (status) {
    case PAWL_OK:
        return "ok";
    case PAWL_BUSY:
        return "busy";
    case PAWL_CANCELED:
        return "canceled";
    case PAWL_NOT_HELD:
        return "not held";
    case PAWL_LOST:
        return "lost";
    case PAWL_DEADLOCK:
        return "deadlock";
    case PAWL_UNAVAILABLE:
        return "unavailable";
    case PAWL_DENIED:
        return "denied";
    case PAWL_PROTOCOL:
        return "protocol";
    case PAWL_NO_MEMORY:
        return "no memory";
    case PAWL_REFUSED:
        return "refused";
    case PAWL_INVALID:
        return "invalid";
    case PAWL_MISUSE:
        return "misuse";
    case PAWL_UNSUPPORTED:
        return "unsupported";
    }
    return "unknown status";
}
