/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting and delivering; see effects.h. */
#include "engine/redis/effects.h"

#include "base/alloc.h"

void pawl__effects_fail(struct pawl__effects *effects, struct pawl__op *op,
    enum pawl__answer answer, pawl_status status, bool again, const char *sentence)
{
    pawl__free(op->error); /* of a reply that turned out to be strange */
    op->answer = answer;
    op->status = status;
    op->again = again;
    op->error = pawl__strdup(sentence);
    pawl__effects_end(effects, op);
}

void pawl__effects_fail_all(struct pawl__effects *effects, struct pawl__op *ops,
    enum pawl__answer answer, pawl_status status, bool again, const char *sentence)
{
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        pawl__effects_fail(effects, op, answer, status, again, sentence);
    }
}

void pawl__effects_warn(struct pawl__effects *effects, char *warning)
{
    if (effects->warnings[0] == NULL) {
        effects->warnings[0] = warning;
    } else if (effects->warnings[1] == NULL) {
        effects->warnings[1] = warning;
    } else {
        pawl__free(warning);
    }
}

void pawl__effects_deliver_all(struct pawl__effects *effects, struct pawl__host *host)
{
    for (size_t i = 0; i < 2; i++) {
        if (effects->warnings[i] != NULL) {
            host->log(host, PAWL_LOG_WARNING, effects->warnings[i]);
            pawl__free(effects->warnings[i]);
        }
    }
    if (effects->ops != NULL) {
        host->complete(host, effects->ops);
    }
    if (effects->reconnected) {
        host->reconnected(host);
    }
    if (effects->attend) {
        host->attend(host);
    }
}
