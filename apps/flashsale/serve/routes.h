/* SPDX-License-Identifier: Apache-2.0 */
/* Which address is served by what. */
#ifndef FLASHSALE_SERVE_ROUTES_H
#define FLASHSALE_SERVE_ROUTES_H

#include "serve/request.h"

/* Choose the request's route by method and path, and set its parameter; the route of what is not
 * there, or not with this method, answers so. */
void route_choose(struct request *request, const char *method, const char *path);

/* Handlers, by the file they are in. */
void handle_order(struct request *request);    /* orders.c */
void handle_alias(struct request *request);    /* orders.c */
void handle_item_get(struct request *request); /* items.c */
void handle_item_put(struct request *request);
void handle_healthz(struct request *request); /* office.c */
void handle_strategies(struct request *request);
void handle_results_get(struct request *request);
void handle_result_put(struct request *request);
void handle_metrics(struct request *request); /* metrics.c */
void handle_events(struct request *request);  /* events.c */
void handle_fault(struct request *request);   /* faults.c */
void handle_faults_get(struct request *request);

/* The results of runs by strategy, or NULL: Redis does not answer. */
json_t *read_results(struct seller *seller); /* office.c */

/* The names of the faults that may be asked for. */
json_t *allowed_faults(const struct shop_settings *settings); /* faults.c */

#endif
