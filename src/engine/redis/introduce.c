/* SPDX-License-Identifier: Apache-2.0 */
/* The client's key; introduce.h says what for. */
#include "engine/redis/introduce.h"

#include "base/clock.h"
#include "engine/redis/errors.h"
#include "engine/redis/lua_scripts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    US_PER_MS = 1000,
    HOST_SIZE = 64,
    COMMAND_SIZE = 128,
    NUMBER_SIZE = 24,
    MARGIN_US = 1000 * US_PER_MS,      /* and as long as the lease, the key outlives it, */
    MARGIN_US_MAX = 60000 * US_PER_MS, /* but no longer than this */
    LATER_US = 60000 * US_PER_MS,      /* after a failure it is tried again */
};

void pawl__client_key(const char *uuid, char key[PAWL__CLIENT_KEY_SIZE + 1])
{
    snprintf(
        key, PAWL__CLIENT_KEY_SIZE + 1, PAWL__CLIENT_KEY_PREFIX "%.*s}", PAWL__UUID_SIZE, uuid);
}

void pawl__introduction_init(struct pawl__introduction *introduction, const char *uuid)
{
    introduction->until_us = 0;
    introduction->began_us = pawl__now_us();
    introduction->whole = false;
    introduction->made = false;
    pawl__client_key(uuid, introduction->key);
}

/* The machine's name, cut if it is long. */
static void get_host(char host[HOST_SIZE + 1])
{
    if (gethostname(host, HOST_SIZE) != 0 && errno != ENAMETOOLONG) {
        host[0] = '\0';
    }
    host[HOST_SIZE] = '\0';
}

bool pawl__introduction_put(
    struct pawl__introduction *introduction, struct pawl__buffer *out, const struct pawl__op *op)
{
    const struct pawl__script *script = &pawl__script_introduce;
    const int64_t ttl_us = op->lease_us + pawl__min64(op->lease_us + MARGIN_US, MARGIN_US_MAX);
    char host[HOST_SIZE + 1];
    char pid[NUMBER_SIZE];
    char age[NUMBER_SIZE];
    char ttl[NUMBER_SIZE];
    get_host(host);
    snprintf(pid, sizeof pid, "%lld", (long long)getpid());
    snprintf(age, sizeof age, "%" PRId64, op->sent_us - introduction->began_us);
    snprintf(ttl, sizeof ttl, "%" PRId64, ttl_us / US_PER_MS);
    const char *command = program_invocation_short_name;
    const bool whole = introduction->whole;
    const char *const words[] = {whole ? "EVAL" : "EVALSHA", whole ? script->text : script->sha1,
        "1", introduction->key, host, pid, command, age, ttl};
    const size_t sizes[] = {strlen(words[0]), strlen(words[1]), 1, PAWL__CLIENT_KEY_SIZE,
        strlen(host), strlen(pid), strnlen(command, COMMAND_SIZE), strlen(age), strlen(ttl)};
    if (!pawl__resp_put_command(out, sizeof words / sizeof words[0], words, sizes)) {
        return false;
    }
    introduction->until_us = op->sent_us + ttl_us;
    introduction->made = true;
    introduction->whole = false;
    return true;
}

void pawl__introduction_answered(struct pawl__introduction *introduction,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply)
{
    if (!pawl__resp_is_error(reply)) {
        return;
    }
    introduction->made = false;
    if (pawl__resp_error_is(reader, reply, "NOSCRIPT")) {
        introduction->whole = true;
        introduction->until_us = 0;
    } else if (pawl__redis_error_is_denial(pawl__resp_text(reader, reply), reply->text_size)) {
        introduction->until_us = PAWL__NEVER; /* on this connection we stay anonymous */
    } else {
        introduction->until_us = pawl__now_us() + LATER_US;
    }
}

bool pawl__introduction_put_end(struct pawl__introduction *introduction, struct pawl__buffer *out)
{
    const char *const words[] = {"DEL", introduction->key};
    introduction->made = false;
    return pawl__resp_put_command(out, 2, words, NULL);
}
