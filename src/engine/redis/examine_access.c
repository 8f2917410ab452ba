/* SPDX-License-Identifier: Apache-2.0 */
/* What the user may do, and who else may come in; examine.h describes the whole. The script
 * access.lua finds out which rights are missing. */
#include "engine/redis/examine.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/redis/errors.h"
#include "engine/redis/introduce.h"
#include "engine/redis/lua_scripts.h"
#include "engine/redis/place.h"

#include <ctype.h>
#include <string.h>

enum {
    TEXT_SIZE = 2048,
    VERSION_WITH_ACL_CHECK = 7,
};

/* All that pawl ever asks of a server, with the way there and the number of the database. Names of
 * locks are the user's own, so any is allowed. */
#define ENOUGH                                                                                     \
    "%s ACL SETUSER pawl on '>PASSWORD' '~*' '&redisson_lock__channel:*' "                         \
    "'&redisson_rwlock:*' '&redisson_sc:*' '&redisson_countdownlatch__channel__*' "                \
    "'&__keyspace@%lld__:*' +hello +ping +select +info +time +evalsha +eval '+script|load' "       \
    "'+client|kill' +pttl +pexpire +expire +exists +type +del +get +set +getrange +incr +decr "    \
    "+incrby +decrby +hexists +hset +hdel +hget +hmget +hkeys +hlen +hscan +llen +lindex +lrange " \
    "+lpop +lrem +rpush +zadd +zrem +zremrangebyscore +zscore +zcard +zcount +zrange "             \
    "+zrangebyscore +scan +publish +subscribe +unsubscribe +psubscribe '+pubsub|numsub' "          \
    "'+config|get'"

/* For a user with rights for some names only: all that the kinds keep beside a name, which nobody
 * guesses. Who may use every key or channel must not be given a pattern: the server refuses that.
 */
#define KEYS_OF_NAME                                                                \
    " '~NAME*' '~redisson_lock_token:{NAME*' '~redisson_lock_queue:{NAME*' "        \
    "'~redisson_lock_timeout:{NAME*' '~{NAME*:rwlock_timeout:*' '~{NAME*:timeout' " \
    "'~pawl_asked:{NAME*' '~pawl_seen:*'"
#define CHANNELS_OF_NAME                                                                 \
    " '&redisson_lock__channel:{NAME*' '&redisson_rwlock:{NAME*' '&redisson_sc:{NAME*' " \
    "'&redisson_countdownlatch__channel__{NAME*'"

/* What rights are for, as the script names it. */
struct use {
    const char *name;
    const char *words; /* behind "needed for " */
    pawl_verdict verdict;
    const char *channels; /* of a kind that has its own */
};

static const struct use uses[] = {
    {"lock", "every lock", PAWL_UNFIT, NULL}, /* first: it tells whether names are limited */
    {"fair", "fair locks", PAWL_WARNING, NULL},
    {"shared", "read/write locks", PAWL_WARNING, "redisson_rwlock:*"},
    {"plain", "plain locks", PAWL_WARNING, NULL},
    {"semaphore", "semaphores", PAWL_WARNING, "redisson_sc:*"},
    {"permits", "permits with leases", PAWL_WARNING, NULL},
    {"latch", "latches", PAWL_WARNING, "redisson_countdownlatch__channel__*"},
    {"quorum", "Redlock", PAWL_WARNING, NULL},
    {"server", "a safe and quick start of a connection", PAWL_WARNING, NULL},
    {"list", "listing locks", PAWL_WARNING, NULL},
    {"break", "breaking locks", PAWL_WARNING, NULL},
    {"name", "showing who holds a lock", PAWL_WARNING, NULL},
};

enum { USE_COUNT = sizeof uses / sizeof uses[0] };

struct text {
    char bytes[TEXT_SIZE];
    size_t size;
};

struct rights {
    struct text missing; /* "HSET, PTTL (needed for every lock), SCAN (needed for listing)" */
    struct text words;   /* " +hset +pttl +scan" */
    pawl_verdict verdict;
    bool keys_limited; /* to some names */
    bool channels_limited;
};

static void add(struct text *text, const char *bytes, size_t size)
{
    const size_t left = sizeof text->bytes - 1 - text->size;
    const size_t fits = size < left ? size : left;
    memcpy(text->bytes + text->size, bytes, fits);
    text->size += fits;
    text->bytes[text->size] = '\0';
}

static void add_words(struct text *text, const char *words)
{
    add(text, words, strlen(words));
}

/* ===== What the script answers ===== */

/* The part of "use:COMMAND:why" with that number. */
static struct pawl__redis_text part_of(const char *item, size_t item_size, int index)
{
    const char *end = item + item_size;
    for (; index > 0 && item < end; index--) {
        const char *colon = memchr(item, ':', (size_t)(end - item));
        item = colon != NULL ? colon + 1 : end;
    }
    const char *colon = item < end ? memchr(item, ':', (size_t)(end - item)) : NULL;
    return (struct pawl__redis_text){item, (size_t)((colon != NULL ? colon : end) - item)};
}

static bool equals(struct pawl__redis_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

/* A word of ACL SETUSER, once: "+hset", or quoted "'+script|load'". */
static void add_right(struct text *words, struct pawl__redis_text command)
{
    struct text word = {.size = 0};
    const bool quoted = memchr(command.bytes, '|', command.size) != NULL;
    add_words(&word, quoted ? " '+" : " +");
    for (size_t i = 0; i < command.size; i++) {
        const char lower = (char)tolower((unsigned char)command.bytes[i]);
        add(&word, &lower, 1);
    }
    add_words(&word, quoted ? "' " : " ");
    add_words(words, " "); /* so that the last one ends with a space, too */
    const bool known = strstr(words->bytes, word.bytes) != NULL;
    words->bytes[--words->size] = '\0';
    add(words, word.bytes, known ? 0 : word.size - 1);
}

/* One denial that is about this use. */
static void add_missing(struct rights *rights, struct pawl__redis_text command, bool first)
{
    char shown[32];
    add_words(&rights->missing, !first || rights->missing.size == 0 ? "" : "; ");
    add_words(&rights->missing, first ? "" : ", ");
    add_words(&rights->missing, pawl__printable(command.bytes, command.size, shown, sizeof shown));
}

/* The client's key has a name that is known, so a denial of that name is a missing right. */
static bool is_client_key(const struct use *use, struct pawl__redis_text command)
{
    return strcmp(use->name, "name") == 0 ||
           (strcmp(use->name, "list") == 0 && equals(command, "HMGET"));
}

static bool is_limited(const struct rights *rights)
{
    return rights->keys_limited || rights->channels_limited;
}

static void note_limited(struct rights *rights, struct pawl__redis_text command)
{
    const bool channel = equals(command, "PUBLISH") || equals(command, "SUBSCRIBE");
    rights->channels_limited = rights->channels_limited || channel;
    rights->keys_limited = rights->keys_limited || !channel;
}

/* The channels of a kind: they are a missing right unless names are limited anyway. */
static bool is_channel(
    const struct rights *rights, const struct use *use, struct pawl__redis_text command)
{
    return use->channels != NULL && !is_limited(rights) && equals(command, "PUBLISH");
}

static void add_pattern(struct text *words, const char *sign, const char *pattern)
{
    add_words(words, " '");
    add_words(words, sign);
    add_words(words, pattern);
    add_words(words, "'");
}

static void judge_use(struct rights *rights, const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, const struct use *use)
{
    bool any = false;
    bool key = false;
    for (const struct pawl__resp_node *item = pawl__resp_first(reader, reply); item != NULL;
         item = pawl__resp_next(reader, reply, item)) {
        const char *text = pawl__resp_text(reader, item);
        const struct pawl__redis_text command = part_of(text, item->text_size, 1);
        if (item->type != PAWL__RESP_TEXT ||
            !equals(part_of(text, item->text_size, 0), use->name)) {
            continue;
        }
        const bool by_name = equals(part_of(text, item->text_size, 2), "name");
        const bool channel = by_name && is_channel(rights, use, command);
        if (by_name && !channel && !is_client_key(use, command)) {
            note_limited(rights, command);
            continue;
        }
        add_missing(rights, command, !any);
        any = true;
        if (channel) {
            add_words(&rights->missing, " to ");
            add_words(&rights->missing, use->channels);
            add_pattern(&rights->words, "&", use->channels);
        } else {
            key = key || by_name;
            add_right(&rights->words, command);
        }
    }
    if (key) {
        add_pattern(&rights->words, "~", "pawl_client:*");
    }
    if (any) {
        add_words(&rights->missing, " (needed for ");
        add_words(&rights->missing, use->words);
        add_words(&rights->missing, ")");
        rights->verdict = use->verdict > rights->verdict ? use->verdict : rights->verdict;
    }
}

/* ===== Telling ===== */

static pawl_status tell_missing(
    const struct pawl__examination *examination, const struct rights *rights)
{
    const struct pawl__redis_config *config = examination->console->config;
    const bool limited = is_limited(rights);
    return pawl__examination_tell(examination, rights->verdict, "rights",
        pawl__format("user '%s' may not run %s%s", config->shown_user, rights->missing.bytes,
            limited ? "; and it may use some names only, which cannot be asked for" : ""),
        pawl__format("%s%s%s%s%s -- or, for a user with all that pawl needs: " ENOUGH,
            config->grant, rights->words.bytes, rights->keys_limited ? KEYS_OF_NAME : "",
            rights->channels_limited ? CHANNELS_OF_NAME : "",
            limited ? " -- where NAME is what the names begin with" : "", config->redis_cli,
            (long long)config->db));
}

/* Which names are the user's cannot be asked, so neither can whether it has all that belongs to
 * them. */
static pawl_status tell_limited(
    const struct pawl__examination *examination, const struct rights *rights)
{
    const struct pawl__redis_config *config = examination->console->config;
    return pawl__examination_tell(examination, PAWL_FIT, "rights",
        pawl__format("user '%s' may run all that pawl does, but on some names only, which cannot "
                     "be asked for; all kinds on names that begin with NAME need: %s%s%s",
            config->shown_user, config->grant, rights->keys_limited ? KEYS_OF_NAME : "",
            rights->channels_limited ? CHANNELS_OF_NAME : ""),
        NULL);
}

static pawl_status tell_rights(
    const struct pawl__examination *examination, const struct rights *rights)
{
    const struct pawl__redis_config *config = examination->console->config;
    if (rights->verdict != PAWL_FIT) {
        return tell_missing(examination, rights);
    }
    if (is_limited(rights)) {
        return tell_limited(examination, rights);
    }
    return pawl__examination_tell(examination, PAWL_FIT, "rights",
        config->user == NULL
            ? pawl__format("user '%s' may do all that pawl does, on every name; for a user with "
                           "no more than that: " ENOUGH,
                  config->shown_user, config->redis_cli, (long long)config->db)
            : pawl__format(
                  "user '%s' may do all that pawl does, on every name", config->shown_user),
        NULL);
}

static pawl_status no_scripts(const struct pawl__examination *examination)
{
    const struct pawl__redis_config *config = examination->console->config;
    return pawl__examination_tell(examination, PAWL_UNFIT, "rights",
        pawl__format("user '%s' may not run scripts, and every operation on a lock is one",
            config->shown_user),
        pawl__format(
            "%s +evalsha +eval '+script|load' -- or, for a user with all that pawl needs: " ENOUGH,
            config->grant, config->redis_cli, (long long)config->db));
}

static bool put_question(struct pawl__buffer *out, const char *probe)
{
    const struct pawl__script *script = &pawl__script_access;
    char token[PAWL__COMPOSED_SIZE_MAX];
    char channel[PAWL__COMPOSED_SIZE_MAX];
    char client[PAWL__CLIENT_KEY_SIZE + 1];
    const struct pawl__redis_text own =
        pawl__redis_compose(token, PAWL__TOKEN_PREFIX, probe, strlen(probe));
    const struct pawl__redis_text heard =
        pawl__redis_compose(channel, PAWL__CHANNEL_PREFIX, probe, strlen(probe));
    pawl__client_key(probe, client);
    const char *const words[] = {"EVAL", script->text, "0", probe, own.bytes, heard.bytes, client};
    const size_t sizes[] = {
        4, script->text_size, 1, strlen(probe), own.size, heard.size, PAWL__CLIENT_KEY_SIZE};
    return pawl__resp_put_command(out, sizeof words / sizeof words[0], words, sizes);
}

static pawl_status examine_rights(const struct pawl__examination *examination)
{
    struct pawl__console *console = examination->console;
    const struct pawl__resp_node *reply = NULL;
    struct rights rights = {.verdict = PAWL_FIT};
    char probe[PAWL__UUID_SIZE + 1]; /* a name that nobody's pattern is about */
    if (console->link.greet.version_major < VERSION_WITH_ACL_CHECK) {
        return pawl__examination_tell(examination, PAWL_FIT, "rights",
            pawl__format("what the user may do cannot be asked before Redis 7.0; a right that is "
                         "missing is named when it is first needed. Enough is: " ENOUGH,
                console->config->redis_cli, (long long)console->config->db),
            NULL);
    }
    if (!pawl__uuid(probe) || !put_question(&console->link.out, probe)) {
        return pawl__console_no_memory();
    }
    const pawl_status status =
        pawl__console_reply(console, pawl__console_deadline(console), &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__resp_reader *reader = &console->link.reader;
    if (pawl__resp_is_error(reply)) {
        return pawl__redis_error_is_denial(pawl__resp_text(reader, reply), reply->text_size)
                   ? no_scripts(examination)
                   : pawl__examination_refused(
                         examination, reply, "ask for the user's rights", "+eval");
    }
    for (size_t i = 0; i < USE_COUNT; i++) {
        judge_use(&rights, reader, reply, &uses[i]);
    }
    return tell_rights(examination, &rights);
}

/* ===== Who else may come in ===== */

static bool is_local(const char *address, size_t size)
{
    static const char *const starts[] = {"127.", "::1", "localhost"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        const size_t start_size = strlen(starts[i]);
        if (size >= start_size && memcmp(address, starts[i], start_size) == 0) {
            return true;
        }
    }
    return false;
}

/* Does it listen to this machine only? The addresses stand between spaces; a minus before one means
 * that it may be missing. */
static bool binds_locally(const char *bind)
{
    bool local = bind[0] != '\0';
    while (*bind != '\0' && local) {
        const size_t size = strcspn(bind, " ");
        const size_t sign = bind[0] == '-' ? 1 : 0;
        local = size == 0 || is_local(bind + sign, size - sign);
        bind += size + (bind[size] == ' ' ? 1 : 0);
    }
    return local;
}

/* Nobody was asked for a password: who can reach it then? */
static bool is_open(const struct pawl__examination *examination)
{
    const struct pawl__redis_config *config = examination->console->config;
    if (pawl__info_is(pawl__examination_info(examination, "tcp_port"), "0")) {
        return false; /* it has unix sockets alone */
    }
    if (!examination->known[PAWL__SETTING_BIND] || !examination->known[PAWL__SETTING_PROTECTED]) {
        return config->host != NULL && !is_local(config->host, strlen(config->host));
    }
    return strcmp(examination->settings[PAWL__SETTING_PROTECTED], "yes") != 0 &&
           !binds_locally(examination->settings[PAWL__SETTING_BIND]);
}

static pawl_status examine_access(const struct pawl__examination *examination)
{
    const struct pawl__redis_config *config = examination->console->config;
    if (config->password != NULL) {
        return pawl__examination_tell(
            examination, PAWL_FIT, "access", pawl__format("we came in with a password"), NULL);
    }
    if (!is_open(examination)) {
        return pawl__examination_tell(examination, PAWL_FIT, "access",
            pawl__format("it wants no password, and as far as can be seen lets in this machine "
                         "only"),
            NULL);
    }
    return pawl__examination_tell(examination, PAWL_WARNING, "access",
        pawl__format("it wants no password and listens to other machines: whoever reaches it may "
                     "take and break every lock"),
        pawl__format("%s CONFIG SET requirepass PASSWORD; %s -a PASSWORD CONFIG REWRITE -- or a "
                     "user of its own: " ENOUGH,
            config->redis_cli, config->redis_cli, config->redis_cli, (long long)config->db));
}

pawl_status pawl__examine_access(const struct pawl__examination *examination)
{
    const pawl_status status = examine_rights(examination);
    return status == PAWL_OK ? examine_access(examination) : status;
}
