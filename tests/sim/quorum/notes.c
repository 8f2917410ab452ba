/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes keep of each other, as the Redis engine has it written down (standing.c): since
 * when a run is known, and how its clock differed from the one here. All of it is by the clock of
 * who keeps it, and forgotten with the rest. */
#include "qsim.h"

#include <string.h>

static struct qs_note *find(struct qs_node *node, const char *run_id)
{
    for (unsigned i = 0; i < node->note_count; i++) {
        if (strcmp(node->notes[i].run_id, run_id) == 0) {
            return &node->notes[i];
        }
    }
    return NULL;
}

static struct qs_note *add(struct qs_node *node, const char *run_id, int64_t since_us)
{
    if (node->note_count == QS_NOTES) {
        qs_fail("NOTES more than %d at a node", QS_NOTES);
    }
    struct qs_note *note = &node->notes[node->note_count++];
    *note = (struct qs_note){.since_us = since_us};
    snprintf(note->run_id, sizeof note->run_id, "%s", run_id);
    return note;
}

static int64_t age_of(int64_t noted_us, int64_t now_us)
{
    return pawl__max64(now_us - noted_us, 0);
}

static struct pawl__clock_note read_clock(const struct qs_note *note, int64_t now_us)
{
    if (note == NULL || note->clock_us == 0) {
        return (struct pawl__clock_note){.age_us = -1, .jumped_us = -1};
    }
    return (struct pawl__clock_note){note->least_us, note->most_us, age_of(note->clock_us, now_us),
        note->jumped_us == 0 ? -1 : age_of(note->jumped_us, now_us)};
}

void qs_see(struct qs_node *node, struct pawl__sighting *sighting)
{
    const int64_t now_us = qs_node_now(node);
    const struct pawl__clock_note clock = sighting->clock;
    struct qs_note *note = find(node, sighting->run_id);
    sighting->age_us = note != NULL ? age_of(note->since_us, now_us) : -1;
    sighting->clock = read_clock(note, now_us);
    if (note == NULL && sighting->note_us >= 0) {
        note = add(node, sighting->run_id, now_us - sighting->note_us);
    }
    if (note != NULL && clock.age_us >= 0) {
        note->clock_us = now_us;
        note->least_us = clock.least_us;
        note->most_us = clock.most_us;
        note->jumped_us = clock.jumped_us < 0 ? 0 : now_us - clock.jumped_us;
    }
}
