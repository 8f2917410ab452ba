/* SPDX-License-Identifier: Apache-2.0 */
/* All clients of this process: so that a thread that ends can be found missing in each of them, and
 * so that a forked child forgets them (its copies have no threads, and their descriptors are
 * closed). */
#include "core/client.h"

#include "base/clock.h"
#include "base/fds.h"
#include "base/thread.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct pawl__list clients = {&clients, &clients};          /* guarded by mutex */
static struct pawl__list composites = {&composites, &composites}; /* likewise */

/* How many locks the calling thread holds, or has lost and not released. Counted where it was, in
 * the process before a fork, it means nothing in the child. */
static _Thread_local int holds;
static _Thread_local unsigned holds_forks;

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_child(void)
{
    pawl__list_init(&clients);
    pawl__list_init(&composites);
    pthread_mutex_unlock(&mutex);
}

static void thread_ended(uint64_t owner)
{
    if (holds == 0 || holds_forks != pawl__fork_count()) {
        return;
    }
    pthread_mutex_lock(&mutex);
    for (struct pawl__list *node = clients.next; node != &clients; node = node->next) {
        struct pawl_client *client = PAWL__CONTAINER(node, struct pawl_client, registered);
        pawl__client_lock(client);
        pawl__machine_owner_gone(&client->machine, owner, pawl__now_us());
        pawl__client_unlock(client, false);
    }
    for (struct pawl__list *node = composites.next; node != &composites; node = node->next) {
        struct pawl__registered *composite = PAWL__CONTAINER(node, struct pawl__registered, node);
        composite->gone(composite, owner);
    }
    pthread_mutex_unlock(&mutex);
}

static void install(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    pawl__thread_set_exit_hook(thread_ended);
}

void pawl__registry_add(struct pawl_client *client)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&mutex);
    pawl__list_push(&clients, &client->registered);
    pthread_mutex_unlock(&mutex);
}

void pawl__registry_remove(struct pawl_client *client)
{
    pthread_mutex_lock(&mutex);
    pawl__list_remove(&client->registered);
    pthread_mutex_unlock(&mutex);
}

void pawl__registry_note(struct pawl__registered *composite)
{
    pthread_mutex_lock(&mutex);
    pawl__list_push(&composites, &composite->node);
    pthread_mutex_unlock(&mutex);
}

void pawl__registry_forget(struct pawl__registered *composite)
{
    pthread_mutex_lock(&mutex);
    pawl__list_remove(&composite->node);
    pthread_mutex_unlock(&mutex);
}

void pawl__registry_count(int by)
{
    if (holds_forks != pawl__fork_count()) {
        holds_forks = pawl__fork_count();
        holds = 0;
    }
    holds = holds + by < 0 ? 0 : holds + by;
}
