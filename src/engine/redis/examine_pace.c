/* SPDX-License-Identifier: Apache-2.0 */
/* The server's clock beside ours, and the time that answers take; examine.h describes the whole.
 *
 * This is the one place of the engine that looks at our wall clock. Nothing is decided by it:
 * leases are durations, and tokens are counted by the server. People are told if the two differ,
 * because after the loss of its data a server counts tokens from its clock. */
#include "engine/redis/examine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <time.h>

enum {
    US_PER_MS = 1000,
    US_PER_S = 1000 * US_PER_MS,
    OFFSET_US_MAX = US_PER_S,
    PINGS_MAX = 100,
    PINGS_MIN = 10,
    PINGS_US = US_PER_S,      /* no more than so long in all, unless it takes that for a few */
    SLOW_US = 10 * US_PER_MS, /* a median beyond is slow */
    TIMEOUT_SHARE = 4, /* and so is one answer in a hundred beyond a quarter of the timeout */
};

/* ===== The clock ===== */

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

static struct pawl__info_value text_of(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    const bool text = node != NULL && node->type == PAWL__RESP_TEXT;
    return (struct pawl__info_value){
        text ? pawl__resp_text(reader, node) : NULL, text ? node->text_size : 0};
}

static pawl_status examine_clock(const struct pawl__examination *examination)
{
    struct pawl__console *console = examination->console;
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *reply = NULL;
    const char *const words[] = {"TIME"};
    const int64_t before_us = wall_us();
    const pawl_status status = pawl__console_ask(console, 1, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const int64_t trip_us = wall_us() - before_us;
    const int64_t seconds = pawl__info_number(text_of(reader, pawl__resp_child(reader, reply, 0)));
    const int64_t rest_us = pawl__info_number(text_of(reader, pawl__resp_child(reader, reply, 1)));
    if (seconds == 0 || seconds > INT64_C(1) << 40) {
        return pawl__examination_tell(examination, PAWL_FIT, "clock",
            pawl__format("its clock may not be asked (TIME)"), NULL);
    }
    const int64_t offset_us = seconds * US_PER_S + rest_us - (before_us + trip_us / 2);
    const bool apart = offset_us > OFFSET_US_MAX || offset_us < -OFFSET_US_MAX;
    return pawl__examination_tell(examination, apart ? PAWL_WARNING : PAWL_FIT, "clock",
        pawl__format("%s%.3f s beside ours%s", offset_us > 0 ? "+" : "",
            (double)offset_us / US_PER_S,
            apart
                ? ": leases do not mind, but after a loss of its data tokens go on from this clock"
                : ""),
        apart ? pawl__format("set the clocks of both machines by NTP (chrony, systemd-timesyncd)")
              : NULL);
}

/* ===== Answers ===== */

static int by_size(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right ? 1 : 0;
}

static pawl_status ping(struct pawl__console *console, int64_t *times_us, size_t *count_out)
{
    const int64_t begin_us = pawl__now_us();
    size_t count = 0;
    while (count < PINGS_MAX && (count < PINGS_MIN || pawl__now_us() - begin_us < PINGS_US)) {
        const struct pawl__resp_node *reply = NULL;
        const char *const words[] = {"PING"};
        const int64_t before_us = pawl__now_us();
        const pawl_status status = pawl__console_ask(console, 1, words, &reply);
        if (status != PAWL_OK) {
            return status;
        }
        times_us[count++] = pawl__now_us() - before_us;
    }
    *count_out = count;
    return PAWL_OK;
}

static pawl_status examine_latency(const struct pawl__examination *examination)
{
    int64_t times_us[PINGS_MAX];
    size_t count = 0;
    const pawl_status status = ping(examination->console, times_us, &count);
    if (status != PAWL_OK) {
        return status;
    }
    qsort(times_us, count, sizeof times_us[0], by_size);
    const int64_t median_us = times_us[count / 2];
    const int64_t late_us = times_us[count * 99 / 100];
    const int64_t timeout_us = examination->console->config->settings.timeout_us;
    const bool slow = median_us > SLOW_US || late_us > timeout_us / TIMEOUT_SHARE;
    return pawl__examination_tell(examination, slow ? PAWL_WARNING : PAWL_FIT, "latency",
        pawl__format("an answer takes %.3f ms, and one in a hundred %.3f ms (%zu asked; the "
                     "timeout is %lld ms)",
            (double)median_us / US_PER_MS, (double)late_us / US_PER_MS, count,
            (long long)(timeout_us / US_PER_MS)),
        slow ? pawl__format("look at the way there, and for slow commands (%s SLOWLOG GET); or "
                            "give it more time with ?timeout=",
                   examination->console->config->redis_cli)
             : NULL);
}

pawl_status pawl__examine_pace(const struct pawl__examination *examination)
{
    const pawl_status status = examine_clock(examination);
    return status == PAWL_OK ? examine_latency(examination) : status;
}
