/* SPDX-License-Identifier: Apache-2.0 */
/* POST /faults/{name}: faults of this instance strike at its next order inside the lock, or with
 * ?in=gap between two commands that should be one; those of servers are asked for at the
 * supervisor's socket, one line for the fault, one for its answer. GET /faults says what is
 * allowed, how many have not struck yet, and what happened last. */
#include "shop/faults.h"
#include "common/values.h"
#include "serve/routes.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONTROL_TIMEOUT_S = 15, DEFAULT_FOR_US = 3000000, LINE_SIZE = 300 };
#define FOR_US_MAX INT64_C(3600000000)

/* Faults of servers, and which servers the supervisor must have started for them. */
enum server_need { NEEDS_STOCK, NEEDS_LOCK, NEEDS_QUORUM };
static const struct {
    const char *name;
    enum server_need need;
} server_faults[] = {
    {"redis-restart", NEEDS_STOCK},
    {"failover", NEEDS_LOCK},
    {"lock-server-down", NEEDS_QUORUM},
    {"lock-server-up", NEEDS_QUORUM},
};

enum { SERVER_FAULT_COUNT = sizeof server_faults / sizeof server_faults[0] };

/* ===== The supervisor ===== */

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = CONTROL_TIMEOUT_S, .tv_usec = 0};
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Send the fault's name, and read the line that comes back, without its end. */
static bool ask_supervisor(const char *path, const char *name, char line_out[LINE_SIZE])
{
    const int fd = connect_to(path);
    if (fd < 0) {
        return false;
    }
    char line[LINE_SIZE];
    const int length = snprintf(line, sizeof line, "%s\n", name);
    size_t size = 0;
    if (send(fd, line, (size_t)length, MSG_NOSIGNAL) == length) {
        ssize_t count = 0;
        do {
            count = recv(fd, line_out + size, LINE_SIZE - 1 - size, 0);
            size += count > 0 ? (size_t)count : 0;
        } while (count > 0 && size < LINE_SIZE - 1 && memchr(line_out, '\n', size) == NULL);
    }
    close(fd);
    line_out[size] = '\0';
    line_out[strcspn(line_out, "\r\n")] = '\0';
    return size > 0;
}

static void forward(struct seller *seller, struct request *request)
{
    (void)seller;
    char line[LINE_SIZE];
    if (!ask_supervisor(shop_settings(request->shop)->control, request->parameter, line)) {
        answer_error(request, MHD_HTTP_BAD_GATEWAY, "no supervisor",
            "nobody answers at --control; is `flashsale up` still running?");
        return;
    }
    if (strncmp(line, "ok", 2) != 0) {
        const size_t word = strncmp(line, "error ", 6) == 0 ? 6 : 0;
        answer_error(request, MHD_HTTP_BAD_GATEWAY, "failed", "%s", line + word);
        return;
    }
    const char *sentence = line[2] == ' ' ? line + 3 : request->parameter;
    shop_set_fault_note(request->shop, sentence);
    answer_json(request, MHD_HTTP_OK,
        json_pack("{s:s, s:s}", "fault", request->parameter, "note", sentence));
}

/* ===== The route ===== */

static bool read_duration(struct request *request, int64_t *for_us_out)
{
    const char *text = request_query(request, "for");
    *for_us_out = DEFAULT_FOR_US;
    if (text != NULL &&
        (!parse_duration_us(text, for_us_out) || *for_us_out < 1 || *for_us_out > FOR_US_MAX)) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "for= takes a duration up to an hour, such as 500ms or 3s");
        return false;
    }
    return true;
}

static bool read_place(struct request *request, enum fault_place *place_out)
{
    const char *text = request_query(request, "in");
    *place_out = text != NULL && strcmp(text, "gap") == 0 ? FAULT_IN_GAP : FAULT_AT_WORK;
    if (text != NULL && *place_out != FAULT_IN_GAP) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "bad request",
            "in= takes gap: between two commands that should be one; without it, at work");
        return false;
    }
    return true;
}

static void arm(struct request *request, enum fault fault)
{
    struct fault_plan plan = {.at = 0};
    char note[FAULT_NOTE_SIZE];
    if (!read_duration(request, &plan.for_us) || !read_place(request, &plan.place)) {
        return;
    }
    shop_arm_fault(request->shop, fault, plan);
    shop_fault_note(request->shop, note);
    answer_json(
        request, MHD_HTTP_OK, json_pack("{s:s, s:s}", "fault", request->parameter, "note", note));
}

void handle_fault(struct request *request)
{
    if (!shop_settings(request->shop)->allow_faults) {
        answer_error(request, MHD_HTTP_FORBIDDEN, "forbidden",
            "faults are for demonstrations; start the shop with --allow-faults");
        return;
    }
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (strcmp(fault_names[i], request->parameter) == 0) {
            arm(request, (enum fault)i);
            return;
        }
    }
    for (size_t i = 0; i < SERVER_FAULT_COUNT; i++) {
        if (strcmp(server_faults[i].name, request->parameter) != 0) {
            continue;
        }
        if (shop_settings(request->shop)->control == NULL) {
            answer_error(request, MHD_HTTP_NOT_IMPLEMENTED, "no supervisor",
                "this shop did not start its servers; `flashsale up` does, and can break them");
            return;
        }
        request_at_desk(request, forward);
        return;
    }
    answer_error(request, MHD_HTTP_NOT_FOUND, "unknown fault",
        "there are die, stop, slow, redis-restart, failover, lock-server-down, lock-server-up");
}

/* Whether there is such a server to break. */
static bool has_server(const struct shop_settings *settings, enum server_need need)
{
    return need == NEEDS_STOCK || (need == NEEDS_LOCK && settings->lock_url != NULL) ||
           (need == NEEDS_QUORUM && settings->quorum_count > 0);
}

json_t *allowed_faults(const struct shop_settings *settings)
{
    json_t *names = json_array();
    for (int i = 0; i < FAULT_COUNT && settings->allow_faults; i++) {
        json_array_append_new(names, json_string(fault_names[i]));
    }
    const bool servers = settings->allow_faults && settings->control != NULL;
    for (size_t i = 0; i < SERVER_FAULT_COUNT && servers; i++) {
        if (has_server(settings, server_faults[i].need)) {
            json_array_append_new(names, json_string(server_faults[i].name));
        }
    }
    return names;
}

void handle_faults_get(struct request *request)
{
    char note[FAULT_NOTE_SIZE];
    shop_fault_note(request->shop, note);
    answer_json(request, MHD_HTTP_OK,
        json_pack("{s:o, s:i, s:s}", "allowed", allowed_faults(shop_settings(request->shop)),
            "armed", shop_armed_faults(request->shop), "note", note));
}
