/* SPDX-License-Identifier: Apache-2.0 */
/* A scripted server: it plays one side of a conversation that a real server would rarely lead.
 *
 * What it does with a command:
 *  1. if the script stands at an EXPECT that matches, the script goes on;
 *  2. else the newest handler whose words begin the command answers it;
 *  3. else it is a mismatch: the first one is kept as a sentence, the client gets "-ERR".
 * So a script says only what the test is about, and handlers (see scripted_handshake) do the rest
 * in whatever order the client likes. Every command is recorded.
 *
 * The script, one step per line; "#" begins a comment line:
 *   EXPECT words...   wait for this command. The first word in any case; * stands for any one word,
 *                     a last ... for any rest; "a word" may be quoted, with \-escapes
 *   EXPECT ~text      wait for a command that contains the text (words with spaces between)
 *   SEND bytes        send the rest of the line, with \r \n \t \\ \0 \xHH. %{n} is word n of the
 *                     command that the last EXPECT met (0: its name), %{bulk n} the same as a RESP
 *                     string
 *   BYTES n pattern   send n bytes of the repeated pattern (same escapes), made while they are sent
 *   CLOSE, RESET      end the connection after what was sent before: FIN or RST
 *   SILENCE ms        read and send nothing for so long (on all connections)
 *   SILENCE           for ever
 *   ACCEPT            wait for the next connection that no ACCEPT has met, and go on with that one
 *   ON words...       go on with the connection that last sent such a command (as in EXPECT)
 *   REPEAT n ... END  play the steps between n times; REPEAT alone: for ever. No nesting
 * SEND and the like act on the connection of the last EXPECT, ACCEPT or ON, else on the newest. */
#ifndef PAWL_SUPPORT_SCRIPTED_H
#define PAWL_SUPPORT_SCRIPTED_H

#include "support/resp.h"
#include "support/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scripted;

/* What a handler sees and says. It runs in the server's thread and must not call scripted_...(). */
struct scripted_turn {
    size_t connection; /* 1 for the first that was accepted */
    bool resp3;        /* the connection said HELLO 3; a handler may change it */
    const struct resp_words *words;
    struct text reply; /* bytes to send; empty: no answer */
    bool close;        /* end the connection after the reply */
};

typedef void (*scripted_handler)(struct scripted_turn *turn, void *arg);

struct scripted *scripted_start(void);
void scripted_stop(struct scripted *scripted); /* also done by the clean-up */

uint16_t scripted_port(const struct scripted *scripted);
const char *scripted_url(const struct scripted *scripted); /* redis://127.0.0.1:port */

/* Answer commands that begin with these words (any case) with these bytes (escapes and %{} as in
 * SEND, the words being the command's own), or by calling a function. Newer ones come first. */
void scripted_handle(struct scripted *scripted, const char *words, const char *reply);
void scripted_handle_with(
    struct scripted *scripted, const char *words, scripted_handler function, void *arg);

/* Handlers for the usual beginning of a connection: HELLO, AUTH, SELECT, CLIENT, INFO, CONFIG GET,
 * PING, TIME, ROLE, ACL WHOAMI, SCRIPT LOAD and EXISTS, (P|S)(UN)SUBSCRIBE, DEL (a client takes
 * back its key), QUIT. */
void scripted_handshake(struct scripted *scripted);

/* Change what INFO says (and HELLO, for redis_version and role); call before clients connect. */
void scripted_set_info(struct scripted *scripted, const char *name, const char *value);

/* Add steps to the script; may be called while it plays. A mistake in it fails the test. */
void scripted_play(struct scripted *scripted, const char *script);

/* Wait until all steps were played and all bytes sent; false on time-out or mismatch. */
bool scripted_wait_done(struct scripted *scripted, int64_t timeout_ms);

/* The first mismatch as a sentence, to be freed; NULL if there was none. */
char *scripted_error(struct scripted *scripted);

/* Fail the test if there was a mismatch or if steps are left over. */
void scripted_check(struct scripted *scripted);

/* What was received. Patterns as in EXPECT; NULL: all. Commands are numbered from 0. */
size_t scripted_count(struct scripted *scripted, const char *source);
char *scripted_command(struct scripted *scripted, size_t index); /* joined, to be freed; or NULL */
bool scripted_command_words(struct scripted *scripted, size_t index, struct resp_words *words_out);
size_t scripted_command_connection(struct scripted *scripted, size_t index);

/* Connections accepted so far, and how many of them are open. */
size_t scripted_accepted(struct scripted *scripted);
size_t scripted_open(struct scripted *scripted);
uint64_t scripted_sent_size(struct scripted *scripted); /* bytes written to all of them */

#endif
