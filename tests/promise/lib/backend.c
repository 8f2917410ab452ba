/* SPDX-License-Identifier: Apache-2.0 */
/* The backends of a test program; see backend.h. */
#include "promise/lib/backend.h"

#include "core/client.h"

struct server *server;
struct proxy *proxy;
char file_url[URL_SIZE];

int backend_start(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

int backend_begin(void **state)
{
    return flush_and_setup(server, state);
}

int backend_begin_proxy(void **state)
{
    const int result = backend_begin(state);
    if (result == 0) {
        proxy = proxy_start_for(server);
    }
    return result;
}

int backend_begin_file(void **state)
{
    const int result = backend_begin(state);
    snprintf(file_url, sizeof file_url, "file://%s", tempdir_make());
    return result;
}

bool stand_in_line(pawl_client *client, pawl_lock *lock, size_t count)
{
    size_t found = 0;
    pthread_mutex_lock(&client->mutex);
    const struct pawl__list *queue = &lock->handle.name->traffic->queue;
    for (const struct pawl__list *node = queue->next; node != queue; node = node->next) {
        found++;
    }
    pthread_mutex_unlock(&client->mutex);
    return found >= count;
}
