/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, and finding one. */
#include "serve/routes.h"

#include "embedded.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

/* The aliases are the addresses that tutorials on this subject use; their argument is the strategy.
 */
static const struct route routes[] = {
    {"POST", "/items/{}/orders", handle_order, NULL},
    {"GET", "/items/{}", handle_item_get, NULL},
    {"PUT", "/items/{}", handle_item_put, NULL},
    {"GET", "/healthz", handle_healthz, NULL},
    {"GET", "/strategies", handle_strategies, NULL},
    {"GET", "/results", handle_results_get, NULL},
    {"PUT", "/results/{}", handle_result_put, NULL},
    {"GET", "/metrics", handle_metrics, NULL},
    {"GET", "/events", handle_events, NULL},
    {"GET", "/faults", handle_faults_get, NULL},
    {"POST", "/faults/{}", handle_fault, NULL},
    {"GET", "/redis/distributed/lock/inventory/sale", handle_alias, ""},
    {"GET", "/inventory/saleByRedisson", handle_alias, "pawl"},
    {"GET", "/inventory/saleByRedlock", handle_alias, "redlock"},
    {"GET", "/submitOrder", handle_alias, "split"},
};

enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

/* ===== What is not there ===== */

static void handle_nothing(struct request *request)
{
    answer_error(request, MHD_HTTP_NOT_FOUND, "not found",
        "no such address; POST /items/{id}/orders sells, GET / shows the shop");
}

static void handle_wrong_method(struct request *request)
{
    answer_error(request, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed",
        "this address takes %s", request->route->argument);
    request->answer.allow = request->route->argument;
}

static const struct route nothing = {"", "", handle_nothing, NULL};
static const struct route wrong_method[] = {
    {"", "", handle_wrong_method, "GET"},
    {"", "", handle_wrong_method, "PUT"},
    {"", "", handle_wrong_method, "POST"},
    {"", "", handle_wrong_method, "GET, PUT"},
};

/* ===== The page ===== */

static const struct embedded *find_file(const char *path)
{
    char name[PARAMETER_SIZE + 8];
    snprintf(name, sizeof name, "page%s", strcmp(path, "/") == 0 ? "/index.html" : path);
    for (size_t i = 0; embedded_files[i] != NULL; i++) {
        if (strcmp(embedded_files[i]->path, name) == 0) {
            return embedded_files[i];
        }
    }
    return NULL;
}

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t end = strlen(types[i][0]);
        if (strlen(path) > end && strcmp(path + strlen(path) - end, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return TYPE_TEXT;
}

static void handle_file(struct request *request)
{
    const struct embedded *file = find_file(request->parameter);
    answer_fixed(request, type_of(file->path), file->text, file->size);
}

static const struct route page = {"GET", "", handle_file, NULL};

/* ===== Choosing ===== */

/* Whether the path is the pattern's; what stands for {} goes to the parameter. */
static bool matches(const char *pattern, const char *path, char parameter[PARAMETER_SIZE])
{
    const char *hole = strstr(pattern, "{}");
    if (hole == NULL) {
        return strcmp(pattern, path) == 0;
    }
    const size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, path, before) != 0) {
        return false;
    }
    const size_t length = strcspn(path + before, "/");
    if (strcmp(path + before + length, hole + 2) != 0) {
        return false;
    }
    /* What is too long for us is no id either. */
    snprintf(parameter, PARAMETER_SIZE, "%.*s", (int)length, path + before);
    return true;
}

static const struct route *refuse_method(const char *allowed)
{
    for (size_t i = 0; i < sizeof wrong_method / sizeof wrong_method[0]; i++) {
        if (strcmp(wrong_method[i].argument, allowed) == 0) {
            return &wrong_method[i];
        }
    }
    return &nothing;
}

/* HEAD is GET without the body, which the library leaves out; but an alias would sell. */
static bool takes(const struct route *route, const char *method)
{
    const bool looks = strcmp(route->method, "GET") == 0 && route->handle != handle_alias &&
                       route->handle != handle_events;
    return strcmp(route->method, method) == 0 || (looks && strcmp(method, "HEAD") == 0);
}

void route_choose(struct request *request, const char *method, const char *path)
{
    char allowed[32] = "";
    request->route = &nothing;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (matches(routes[i].pattern, path, request->parameter)) {
            if (takes(&routes[i], method)) {
                request->route = &routes[i];
                return;
            }
            const size_t length = strlen(allowed);
            snprintf(allowed + length, sizeof allowed - length, "%s%s", length > 0 ? ", " : "",
                routes[i].method);
        }
    }
    if (allowed[0] != '\0') {
        request->route = refuse_method(allowed);
    } else if (find_file(path) != NULL) {
        request->route = takes(&page, method) ? &page : refuse_method("GET");
        snprintf(request->parameter, sizeof request->parameter, "%s", path);
    }
}
