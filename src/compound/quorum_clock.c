/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks that jump; quorum_clock.h says what each number means. */
#include "compound/quorum_clock.h"

#include "base/clock.h"

struct pawl__offset pawl__offset_of(const struct pawl__clock_sample *sample)
{
    return (struct pawl__offset){sample->clock_us - sample->heard_us,
        sample->clock_us - sample->asked_us, sample->heard_us, sample->clock_us != 0};
}

bool pawl__sample_is_old(
    const struct pawl__clock_sample *sample, const struct pawl__clock_sample *newest, bool aside)
{
    return aside ? sample->asked_us < newest->heard_us : sample->heard_us <= newest->asked_us;
}

/* As it may be at another time. */
static struct pawl__offset grown(const struct pawl__offset *offset, int64_t at_us)
{
    const int64_t apart_us = at_us > offset->at_us ? at_us - offset->at_us : offset->at_us - at_us;
    const int64_t drift_us = apart_us / PAWL__CLOCK_DRIFT;
    return (struct pawl__offset){
        offset->least_us - drift_us, offset->most_us + drift_us, at_us, true};
}

struct pawl__offset pawl__offset_between(
    const struct pawl__offset *one, const struct pawl__offset *other, int64_t now_us)
{
    if (!one->known || !other->known) {
        return (struct pawl__offset){0};
    }
    const struct pawl__offset first = grown(one, now_us);
    const struct pawl__offset second = grown(other, now_us);
    return (struct pawl__offset){
        first.least_us - second.most_us, first.most_us - second.least_us, now_us, true};
}

static int64_t middle(const struct pawl__offset *offset)
{
    return offset->least_us + (offset->most_us - offset->least_us) / 2;
}

bool pawl__offset_jumped(
    const struct pawl__offset *known, const struct pawl__offset *found, int64_t *by_us_out)
{
    if (!known->known || !found->known) {
        return false;
    }
    const struct pawl__offset now = grown(known, found->at_us);
    *by_us_out = middle(found) - middle(known);
    return found->least_us > now.most_us + PAWL__CLOCK_STEP_US ||
           found->most_us < now.least_us - PAWL__CLOCK_STEP_US;
}

struct pawl__offset pawl__offset_narrowed(
    const struct pawl__offset *known, const struct pawl__offset *found)
{
    if (!known->known || !found->known) {
        return known->known ? *known : *found;
    }
    const struct pawl__offset now = grown(known, found->at_us);
    const struct pawl__offset both = {pawl__max64(now.least_us, found->least_us),
        pawl__min64(now.most_us, found->most_us), found->at_us, true};
    return both.least_us <= both.most_us ? both : now;
}

bool pawl__clock_is_suspect(size_t differing, size_t compared)
{
    return 2 * differing > compared;
}
