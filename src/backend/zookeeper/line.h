/*
 * line.h - one handle of the client library, with its two threads and its connection.
 *
 * A line is opened and closed on the helper's thread. What the library's threads have to tell becomes a task
 * on the loop; nothing is decided on them.
 */
#ifndef SB_BACKEND_ZOOKEEPER_LINE_H
#define SB_BACKEND_ZOOKEEPER_LINE_H

#include "backend/zookeeper/helper.h"
#include "backend/zookeeper/library.h"
#include "backend/zookeeper/options.h"

#include <stdatomic.h>

struct sb_zk_call;

struct sb_zk_line {
    const struct simba_backend_host *host;
    const struct sb_zk_options *options;
    struct sb_zk_helper *helper;
    void *user;
    void (*changed)(struct sb_zk_line *line); /* on the loop */
    /* On the loop: a watch fired, because the node was deleted or for another reason. */
    void (*watched)(struct sb_zk_line *line, const char *path, bool deleted);
    void (*closed)(struct sb_zk_line *line);   /* on the loop; frees it */
    void (*returned)(struct sb_zk_line *line); /* on the loop: it was not closed, see replace */
    clientid_t resume; /* the session to go on with; an id of 0: a new one */
    struct sb_zk_errand open_errand;
    struct sb_zk_errand close_errand;
    struct simba_task closed_task;
    _Atomic bool deaf;        /* a firing was dropped: what was not heard of may have happened */
    bool made;                /* the loop has seen the handle */
    bool replaced;            /* another one is to go on with its session */
    struct sb_zk_call *calls; /* that were made on it and have not ended */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t progress;
    bool silent; /* nothing is posted: the client is being opened, or was not */
    bool posted;
    bool unwanted; /* it need not be opened any more */
    struct simba_task changed_task;
    zhandle_t *handle; /* NULL until it has been made */
    int64_t begin_ms;  /* when it did not exist yet */
    int64_t making_ms; /* how long it took to be made */
    int failure;       /* an errno: it cannot be made */
    int state;         /* ZOO_..._STATE */
    unsigned drops;    /* how often the connection broke */
};

/* NULL when memory is short. `helper` and the rest are the caller's to fill in before sb_zk_line_open. */
struct sb_zk_line *sb_zk_line_create(void);

/* Makes the handle, in the background. */
void sb_zk_line_open(struct sb_zk_line *line);

/* Waits until it is connected, or cannot be, or the time is over; says which. The time counts from when the
 * handle was made, unless that takes until `end_ms`. */
int sb_zk_line_wait(struct sb_zk_line *line, int64_t timeout_ms, int64_t end_ms,
                    struct simba_error *error);

/* Whether it cannot be opened: trying again at once would not help. */
bool sb_zk_line_has_failed(struct sb_zk_line *line);

/* Ends the silence: from now on changes are told, and what has happened so far is told as one. */
void sb_zk_line_speak(struct sb_zk_line *line);

/* Closes the handle in the background; then `closed` is called. A session that is connected ends with it. */
void sb_zk_line_close(struct sb_zk_line *line);

/* The same for one whose session is to live: if it is connected by then, `returned` is called instead. */
void sb_zk_line_replace(struct sb_zk_line *line);

/* The same, waiting, for a line that was silent all the time. Frees it. */
void sb_zk_line_close_now(struct sb_zk_line *line);

void sb_zk_line_free(struct sb_zk_line *line);

/* What the library calls for each watch on a node, with the line as its context. */
void sb_zk_line_on_node(zhandle_t *handle, int type, int state, const char *path, void *context);

#endif
