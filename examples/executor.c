/*
 * executor.c - callbacks on a thread of the application's own, here its main thread.
 *
 *     executor [URL]
 *
 * Programs with an event loop want callbacks there and nowhere else. The executor's duty is to run
 * each task once and soon; execute() itself is called on threads of the client, so it only queues.
 */
#include <simba/simba.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct task {
    struct task *next;
    void (*run)(void *argument);
    void *argument;
};

struct loop {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct task *head;
    struct task **tail;
    simba_contender *contender;
    int ended; /* only used on the loop's own thread */
};

/* May run on any thread. It has no way to fail: a task that is lost would hold up its contender for
 * good, so out of memory is the end of the program. */
static void execute(void *user, void (*run)(void *argument), void *argument)
{
    struct loop *loop = user;
    struct task *task = malloc(sizeof(*task));

    if (task == NULL)
        abort();
    task->next = NULL;
    task->run = run;
    task->argument = argument;
    pthread_mutex_lock(&loop->lock);
    *loop->tail = task;
    loop->tail = &task->next;
    pthread_cond_signal(&loop->filled);
    pthread_mutex_unlock(&loop->lock);
}

static struct task *take(struct loop *loop)
{
    struct task *task;

    pthread_mutex_lock(&loop->lock);
    while (loop->head == NULL)
        pthread_cond_wait(&loop->filled, &loop->lock);
    task = loop->head;
    loop->head = task->next;
    if (loop->head == NULL)
        loop->tail = &loop->head;
    pthread_mutex_unlock(&loop->lock);
    return task;
}

static void run_loop(struct loop *loop)
{
    while (!loop->ended) {
        struct task *task = take(loop);

        task->run(task->argument);
        free(task);
    }
}

/* Both callbacks run on the main thread. Inside a callback a stop does not wait. Outside it would
 * wait, and run on_released itself, because this thread is the executor's. */
static void on_acquired(void *user, const struct simba_state *state)
{
    struct loop *loop = user;

    printf("on the main thread: %s leads\n", state->after.id);
    simba_contender_stop(loop->contender, NULL);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct loop *loop = user;

    (void)state;
    printf("on the main thread: not leading any more\n");
    loop->ended = 1;
}

int main(int argc, char **argv)
{
    struct loop loop = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
    struct simba_executor executor = {execute, &loop};
    struct simba_client_options client_options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    simba_client *client;

    loop.tail = &loop.head;
    client_options.executor = &executor;
    options.mutex = "example-executor";
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = &loop;
    if (simba_client_open(argc > 1 ? argv[1] : "sqlite:example.db", &client_options, &client,
                          &error) != SIMBA_OK ||
        simba_contender_create(client, &options, &loop.contender, &error) != SIMBA_OK ||
        simba_contender_start(loop.contender, &error) != SIMBA_OK) {
        fprintf(stderr, "executor: %s\n", error.text);
        return 1;
    }
    run_loop(&loop);
    simba_contender_close(loop.contender);
    return simba_client_close(client, NULL) == SIMBA_OK ? 0 : 1;
}
