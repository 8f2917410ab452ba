/* SPDX-License-Identifier: Apache-2.0 */
/* The granting server and what was said to it; talk.h describes it from outside. */
#include "wire/lib/talk.h"

#include "support/sha1.h"

#include <strings.h>

struct scripted *scripted;

static pawl_client *open_client;
static pawl_lock *open_locks[8];
static size_t lock_count;

/* ===== The usual answers ===== */

/* The digest of the script that a command calls; false: it is no call of a script. */
static bool digest_of(const struct resp_words *words, char hex_out[41])
{
    if (words->count < 3) {
        return false;
    }
    if (strcasecmp(words->items[0], "EVALSHA") == 0) {
        snprintf(hex_out, 41, "%s", words->items[1]);
        return true;
    }
    if (strcasecmp(words->items[0], "EVAL") == 0) {
        sha1_hex(words->items[1], words->sizes[1], hex_out);
        return true;
    }
    return false;
}

static bool is_script(const char *hex, const struct pawl__script *script)
{
    return strcmp(hex, script->sha1) == 0;
}

static void answer_call(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    char hex[41] = "";
    digest_of(turn->words, hex);
    if (is_script(hex, &pawl__script_rights)) {
        text_add_string(&turn->reply, "*0\r\n");
    } else if (is_script(hex, &pawl__script_acquire) || is_script(hex, &pawl__script_pass)) {
        text_addf(&turn->reply, ":%lld\r\n", (long long)TOKEN);
    } else if (is_script(hex, &pawl__script_acquire_all)) {
        const long count = strtol(turn->words->items[2], NULL, 10) / 2;
        text_addf(&turn->reply, "*%ld\r\n", count);
        for (long i = 0; i < count; i++) {
            text_addf(&turn->reply, ":%lld\r\n", (long long)TOKEN);
        }
    } else if (is_script(hex, &pawl__script_renew) || is_script(hex, &pawl__script_release_all)) {
        const long count = strtol(turn->words->items[2], NULL, 10);
        text_addf(&turn->reply, "*%ld\r\n", count);
        for (long i = 0; i < count; i++) {
            text_add_string(&turn->reply, ":1\r\n");
        }
    } else if (is_script(hex, &pawl__script_inspect)) {
        text_add_string(&turn->reply, "*4\r\n$3\r\na:1\r\n$1\r\n1\r\n:5000\r\n$1\r\n7\r\n");
    } else {
        text_add_string(&turn->reply, ":1\r\n");
    }
}

static int begin_with_answers(void)
{
    scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle_with(scripted, "EVALSHA", answer_call, NULL);
    scripted_handle_with(scripted, "EVAL", answer_call, NULL);
    scripted_handle(scripted, "HEXISTS", ":1\\r\\n");
    return 0;
}

int talk_begin(void **state)
{
    open_client = NULL;
    lock_count = 0;
    const int result = cleanup_setup(state);
    return result == 0 ? begin_with_answers() : result;
}

int talk_end(void **state)
{
    for (size_t i = 0; i < lock_count; i++) {
        pawl_lock_close(open_locks[i]);
    }
    pawl_client_close(open_client);
    return cleanup_teardown(state);
}

/* ===== Clients and locks ===== */

static pawl_status open_with(const char *query, pawl_client **client_out)
{
    char url[256];
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.timeout_ms = TIMEOUT_MS;
    options.connect_timeout_ms = TIMEOUT_MS;
    snprintf(url, sizeof url, "%s%s", scripted_url(scripted), query != NULL ? query : "");
    return pawl_client_open(url, &options, client_out);
}

pawl_client *talk_client(const char *query)
{
    ASSERT_OK(open_with(query, &open_client));
    return open_client;
}

pawl_status talk_open(const char *query)
{
    pawl_client *client = NULL;
    const pawl_status status = open_with(query, &client);
    if (status == PAWL_OK) {
        pawl_client_close(client);
    }
    return status;
}

pawl_lock *talk_lock_with(pawl_client *client, int64_t lease_ms, bool renew, bool reentry)
{
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = reentry ? PAWL_REENTRY_ALLOW : PAWL_REENTRY_DEFAULT;
    options.lease_ms = lease_ms;
    options.renew = renew;
    ASSERT_OK(pawl_lock_open(client, "x", &options, &lock));
    assert_true(lock_count < COUNT(open_locks));
    open_locks[lock_count++] = lock;
    return lock;
}

pawl_lock *talk_lock(pawl_client *client)
{
    return talk_lock_with(client, LEASE_MS, true, false);
}

/* ===== One reply ===== */

void talk_then(const struct pawl__script *script, const char *steps)
{
    struct text play = {0};
    text_addf(&play, "EXPECT EVALSHA %s ...\n%s\n", script->sha1, steps);
    scripted_play(scripted, play.data);
    text_free(&play);
}

void talk_answer(const struct pawl__script *script, const char *reply)
{
    struct text steps = {0};
    text_addf(&steps, "SEND %s", reply);
    talk_then(script, steps.data);
    text_free(&steps);
}

/* ===== What was said ===== */

static size_t count_calls(const struct pawl__script *script, const char *command)
{
    size_t count = 0;
    struct resp_words words;
    for (size_t i = 0; scripted_command_words(scripted, i, &words); i++) {
        char hex[41] = "";
        const bool met = digest_of(&words, hex) && is_script(hex, script) &&
                         strcasecmp(words.items[0], command) == 0;
        count += met ? 1 : 0;
        resp_free_words(&words);
    }
    return count;
}

size_t talk_calls(const struct pawl__script *script)
{
    return count_calls(script, "EVALSHA");
}

size_t talk_texts(const struct pawl__script *script)
{
    return count_calls(script, "EVAL");
}

static const char *name_of_script(const char *hex)
{
    const struct {
        const struct pawl__script *script;
        const char *name;
    } names[] = {{&pawl__script_acquire, "ACQUIRE"}, {&pawl__script_renew, "RENEW"},
        {&pawl__script_count, "COUNT"}, {&pawl__script_release, "RELEASE"},
        {&pawl__script_pass, "PASS"}, {&pawl__script_inspect, "INSPECT"},
        {&pawl__script_break, "BREAK"}, {&pawl__script_rights, "RIGHTS"},
        {&pawl__script_introduce, "INTRODUCE"}};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (is_script(hex, names[i].script)) {
            return names[i].name;
        }
    }
    return "UNKNOWN";
}

static void add_command(struct text *order, const struct resp_words *words)
{
    char hex[41] = "";
    const char *name = words->items[0];
    if (digest_of(words, hex)) {
        name = name_of_script(hex);
    } else if (strcasecmp(name, "SCRIPT") == 0 || strcasecmp(name, "CLIENT") == 0) {
        name = words->items[1];
    }
    if (strcmp(name, "INTRODUCE") == 0) {
        return; /* said when it is due, and nothing depends on it */
    }
    if (strcasecmp(name, "LOAD") == 0 && order->size >= 4 &&
        strcasecmp(order->data + order->size - 4, "LOAD") == 0) {
        return;
    }
    text_addf(order, "%s%s", order->size > 0 ? " " : "", name);
}

char *talk_order(size_t connection)
{
    struct text order = {0};
    struct resp_words words;
    text_add_string(&order, "");
    for (size_t i = 0; scripted_command_words(scripted, i, &words); i++) {
        if (scripted_command_connection(scripted, i) == connection) {
            add_command(&order, &words);
        }
        resp_free_words(&words);
    }
    return text_take(&order);
}

char *talk_owner(size_t nth)
{
    struct resp_words words;
    char *owner = NULL;
    for (size_t i = 0; owner == NULL && scripted_command_words(scripted, i, &words); i++) {
        char hex[41] = "";
        if (digest_of(&words, hex) && is_script(hex, &pawl__script_acquire) && nth-- == 0) {
            owner = support_copy(words.items[5], words.sizes[5]); /* behind the two keys */
        }
        resp_free_words(&words);
    }
    assert_non_null(owner);
    return owner;
}

/* ===== Asserting ===== */

void assert_status_at(
    pawl_status got, pawl_status wanted, const char *call, const char *file, int line)
{
    if (got != wanted) {
        support_fail("%s:%d: %s answered %s, not %s: %s", file, line, call, pawl_status_string(got),
            pawl_status_string(wanted), pawl_last_error());
    }
}

void assert_says(const char *part)
{
    if (strstr(pawl_last_error(), part) == NULL) {
        support_fail("\"%s\" does not say \"%s\"", pawl_last_error(), part);
    }
}

void assert_works(pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, 3000));
    assert_true(pawl_lock_token(lock) == TOKEN);
    ASSERT_OK(pawl_lock_release(lock));
}
