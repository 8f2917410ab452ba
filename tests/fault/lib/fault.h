/* SPDX-License-Identifier: Apache-2.0 */
/* What every fault test includes: a real server, a crew, the oracles; and asserting a status
 * together with its sentence. */
#ifndef PAWL_FAULT_LIB_FAULT_H
#define PAWL_FAULT_LIB_FAULT_H

#include "fault/lib/crew.h"
#include "fault/lib/oracle.h"
#include "fault/lib/pace.h"
#include "pawl.h"
#include "support/fail.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/resources.h"
#include "support/server.h"
#include "support/wait.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { URL_SIZE = 256 };

static inline void assert_status_at(
    pawl_status got, pawl_status wanted, const char *call, const char *file, int line)
{
    if (got != wanted) {
        support_fail("%s:%d: %s answered %s, not %s: %s", file, line, call, pawl_status_string(got),
            pawl_status_string(wanted), pawl_last_error());
    }
}

#define ASSERT_STATUS(wanted, call) assert_status_at(call, wanted, #call, __FILE__, __LINE__)
#define ASSERT_OK(call) ASSERT_STATUS(PAWL_OK, call)

/* A directory of its own, as a URL. Valid until the next call. */
static inline const char *make_file_url(void)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    return url;
}

#endif
