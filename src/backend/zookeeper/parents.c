/*
 * parents.c - makes the nodes above a latch when they are missing: on a new ensemble, on one that came back
 * empty, and after the servers have removed a container that nobody used.
 *
 * From the bottom up and down again, because the rights may end somewhere above. The mutex and the folder of
 * all mutexes are containers, as Curator makes them; what the chroot names is there to stay.
 */
#include "backend/zookeeper/job.h"
#include "base/error.h"

#include <string.h>

static void make_next(struct sb_zk_job *job);

static bool is_container(const struct sb_zk_job *job)
{
    return job->reach >= strlen(job->store->options.base) && !job->store->no_containers;
}

/* One level up; 0 when there is none. */
static size_t up(const char *path, size_t reach)
{
    while (reach > 0 && path[reach - 1] != '/')
        reach--;
    return reach > 0 ? reach - 1 : 0;
}

static size_t down(const char *path, size_t reach)
{
    return path[reach] == '\0' ? reach : reach + 1 + strcspn(path + reach + 1, "/");
}

static void on_made(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];
    int code = job->calls[0].code;

    sb_zk_mutex_path(path, job->store->options.base, job->place->mutex);
    if (code == ZUNIMPLEMENTED && is_container(job)) {
        job->store->no_containers = true;
    } else if (code == ZNONODE && up(path, job->reach) > 0) {
        job->reach = up(path, job->reach);
    } else if (code == ZOK || code == ZNODEEXISTS) {
        if (path[job->reach] == '\0') {
            job->then(job);
            return;
        }
        job->reach = down(path, job->reach);
    } else {
        sb_zk_job_fail(job, code);
        return;
    }
    if (sb_zk_job_again(job))
        make_next(job);
}

static void make_next(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    sb_zk_mutex_path(path, job->store->options.base, job->place->mutex);
    path[job->reach] = '\0';
    job->step = on_made;
    sb_zk_create_parent(sb_zk_job_call(job, 0), path, is_container(job));
}

void sb_zk_job_make_parents(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job))
{
    char path[SB_ZK_PATH_SIZE];

    sb_zk_mutex_path(path, job->store->options.base, job->place->mutex);
    job->then = then;
    job->reach = strlen(path);
    if (sb_zk_job_again(job))
        make_next(job);
}
