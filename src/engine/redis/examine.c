/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server about itself; examine.h describes the whole. */
#include "engine/redis/examine.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/redis/errors.h"

#include <string.h>

static const char *const setting_names[PAWL__SETTING_COUNT] = {"save", "appendfsync",
    "stop-writes-on-bgsave-error", "min-replicas-to-write", "maxclients", "bind", "protected-mode",
    "notify-keyspace-events"};

pawl_status pawl__examination_tell(const struct pawl__examination *examination,
    pawl_verdict verdict, const char *topic, char *sentence, char *remedy)
{
    const bool whole = sentence != NULL && (verdict == PAWL_FIT || remedy != NULL);
    if (whole) {
        const pawl_finding finding = {
            sizeof finding, verdict, topic, sentence, remedy != NULL ? remedy : ""};
        examination->each(&finding, examination->arg);
    }
    pawl__free(sentence);
    pawl__free(remedy);
    return whole ? PAWL_OK : pawl__fail(PAWL_NO_MEMORY, "no memory for what was found");
}

/* ===== Refusals ===== */

pawl_status pawl__examination_tell_loading(const struct pawl__examination *examination)
{
    return pawl__examination_tell(examination, PAWL_UNFIT, "loading",
        pawl__format("it is loading its data, and what it answers may change"),
        pawl__format("wait until it has finished"));
}

static pawl_status tell_busy(const struct pawl__examination *examination)
{
    return pawl__examination_tell(examination, PAWL_UNFIT, "busy",
        pawl__format("it is busy with somebody's script, and answers nobody until that ends"),
        pawl__format("%s SCRIPT KILL (a script that has written can only be waited for, or ended "
                     "with the server)",
            examination->console->config->redis_cli));
}

pawl_status pawl__examination_refused(const struct pawl__examination *examination,
    const struct pawl__resp_node *reply, const char *what, const char *rights)
{
    const struct pawl__resp_reader *reader = &examination->console->link.reader;
    const bool loading = pawl__resp_error_is(reader, reply, "LOADING");
    const bool told = pawl__info_is(pawl__examination_info(examination, "loading"), "1");
    pawl_status status = PAWL_OK;
    if (pawl__resp_error_is(reader, reply, "BUSY")) {
        status = tell_busy(examination);
    } else if (loading && !told) {
        status = pawl__examination_tell_loading(examination);
    } else if (!loading) {
        status = pawl__console_fail(examination->console, reply, what, rights);
    }
    return status == PAWL_OK ? PAWL_BUSY : status;
}

/* ===== Asking ===== */

static pawl_status ask_info(struct pawl__examination *examination)
{
    struct pawl__console *console = examination->console;
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *reply = NULL;
    const char *const words[] = {"INFO"};
    const pawl_status status = pawl__console_ask(console, 1, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    if (pawl__resp_is_error(reply) &&
        pawl__redis_error_is_denial(pawl__resp_text(reader, reply), reply->text_size)) {
        return PAWL_OK;
    }
    if (reply->type != PAWL__RESP_TEXT || reply->text_size == 0) {
        return pawl__resp_is_error(reply)
                   ? pawl__examination_refused(examination, reply, "ask for INFO", "+info")
                   : pawl__fail(PAWL_PROTOCOL, "%s answers INFO as no Redis server does",
                         console->config->peer);
    }
    examination->info = pawl__alloc(reply->text_size);
    if (examination->info == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for what was found");
    }
    memcpy(examination->info, pawl__resp_text(reader, reply), reply->text_size);
    examination->info_size = reply->text_size;
    return PAWL_OK;
}

static pawl_status ask_settings(struct pawl__examination *examination)
{
    struct pawl__console *console = examination->console;
    const struct pawl__resp_reader *reader = &console->link.reader;
    for (size_t i = 0; i < PAWL__SETTING_COUNT; i++) {
        const struct pawl__resp_node *reply = NULL;
        const char *const words[] = {"CONFIG", "GET", setting_names[i]};
        const pawl_status status = pawl__console_ask(console, 3, words, &reply);
        if (status != PAWL_OK) {
            return status;
        }
        const struct pawl__resp_node *value = pawl__resp_map_get(reader, reply, setting_names[i]);
        examination->known[i] = value != NULL && value->type == PAWL__RESP_TEXT;
        if (examination->known[i]) {
            pawl__printable(pawl__resp_text(reader, value), value->text_size,
                examination->settings[i], PAWL__SETTING_SIZE);
        }
    }
    return PAWL_OK;
}

pawl_status pawl__redis_examine(
    struct pawl__console *console, pawl_finding_callback each, void *arg)
{
    struct pawl__examination examination = {.console = console, .each = each, .arg = arg};
    pawl_status status = ask_info(&examination);
    if (status == PAWL_OK) {
        status = pawl__console_choose(console);
    }
    if (status == PAWL_OK) {
        status = ask_settings(&examination);
    }
    if (status == PAWL_OK) {
        status = pawl__examine_server(&examination);
    }
    if (status == PAWL_OK) {
        status = pawl__examine_access(&examination);
    }
    if (status == PAWL_OK) {
        status = pawl__examine_pace(&examination);
    }
    pawl__free(examination.info);
    return status == PAWL_BUSY ? PAWL_OK : status;
}
