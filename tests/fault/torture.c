/*
 * torture.c - see torture.h.
 */
#include "torture.h"

#include "census.h"

#include <signal.h>
#include <simba/backend.h>

#define PIECES_MAX 20000 /* more are not needed by any scene */
#define RUN_SECONDS 60   /* a run that takes longer hangs */
#define PLAYS_MAX 100
#define ACTS_MAX 64

struct act {
    struct shortage *shortage;
    const struct scene *scene;
    const char *store;
    bool for_good;
    long stride;
    bool open_first;
    char name[96];
    char folder[TEST_PATH_MAX];
};

/* ---- Hanging runs ---------------------------------------------------------------------------- */

static char occasion[160];

/* The name of the run is worth more than a plain time-out. */
static void on_alarm(int number)
{
    (void)number;
    if (write(STDERR_FILENO, occasion, strlen(occasion)) > 0)
        (void)!write(STDERR_FILENO, " hangs\n", 7);
    abort();
}

/* ---- One run --------------------------------------------------------------------------------- */

/* A stop that cannot succeed is given up soon, one that can is not. */
static void set_stage(struct stage *stage, const struct act *act)
{
    const int stop_timeout_ms = act->for_good ? STAGE_HURRY_MS : TEST_PATIENCE_MS;

    memset(stage, 0, sizeof *stage);
    stage->shortage = act->shortage;
    snprintf(stage->url, sizeof stage->url, "%s:%s%s?%s&jitter=0ms..1ms&stop-timeout=%dms",
             act->store, act->folder, act->folder[0] != '\0' ? "/db" : "fault", act->scene->lease,
             stop_timeout_ms);
}

/* Removes what an earlier run has left, so that each one sets the store up anew. */
static void clear_store(const struct act *act)
{
    static const char *const parts[] = {"db", "db-wal", "db-shm", "db-wake", "db-life"};
    char path[TEST_PATH_MAX + 16];

    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        snprintf(path, sizeof path, "%s/%s", act->folder, parts[i]);
        unlink(path);
    }
}

/* Everything must go well now. A stop may have been given up because the machine is slow; then it
 * is done again. */
static void play_in_peace(const struct act *act, struct stage *stage)
{
    int plays = 0;

    stage->peace = true;
    do {
        stage->hurried = false;
        act->scene->play(stage);
    } while (stage->hurried && ++plays < PLAYS_MAX);
    if (stage->hurried)
        fail_msg("%s: every stop is given up", occasion);
}

/* With `close` the objects end while the shortage lasts, otherwise they are used again after it.
 * Returns whether it struck. */
static bool run(const struct act *act, long nth, bool close)
{
    struct census before;
    struct stage stage;
    bool struck;

    snprintf(occasion, sizeof occasion, "%s, %s %ld%s", act->name, act->shortage->piece, nth,
             close ? ", closing in it" : "");
    alarm(RUN_SECONDS);
    clear_store(act);
    before = census_take();
    set_stage(&stage, act);
    if (act->open_first)
        assert_true(stage_client(&stage));
    shortage_begin(act->shortage, nth, act->for_good);
    act->scene->play(&stage);
    if (close)
        stage_close(&stage);
    struck = shortage_end(act->shortage) > 0;
    if (close)
        census_check(&before, occasion);
    play_in_peace(act, &stage);
    stage_close(&stage);
    census_check(&before, occasion);
    alarm(0);
    return struck;
}

/* One refusal before the end of the scene is over when the objects are closed. */
static bool run_both(const struct act *act, long nth)
{
    bool struck = run(act, nth, false);

    if (struck && !act->for_good)
        return true;
    return run(act, nth, true) || struck;
}

static void every_piece_is_refused_in_turn(void **state)
{
    const struct act *act = *state;
    long nth = 1;

    while (run_both(act, nth)) {
        nth += act->stride;
        if (nth > PIECES_MAX)
            fail_msg("%s: no run without a refusal", act->name);
    }
    if (nth == 1)
        fail_msg("%s: nothing was refused", act->name);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The first loop of a process opens descriptors of libuv's that stay. */
static int warm_up(void **state)
{
    simba_client *client = NULL;

    if (simba_client_open("memory:warm-up", NULL, &client, NULL) != SIMBA_OK)
        return -1;
    return simba_client_close(client, NULL);
}

static int set_up(void **state)
{
    struct act *act = *state;

    signal(SIGALRM, on_alarm);
    if (strcmp(act->store, "sqlite") == 0)
        test_folder_create(act->folder);
    return 0;
}

static int tear_down(void **state)
{
    struct act *act = *state;

    if (act->folder[0] != '\0')
        test_folder_remove(act->folder);
    return 0;
}

static struct CMUnitTest make_test(struct act *act)
{
    struct CMUnitTest test = {act->name, every_piece_is_refused_in_turn, set_up, tear_down, act};

    snprintf(act->name, sizeof act->name, "%s on %s: each %s fails %s", act->scene->name,
             act->store, act->shortage->piece, act->for_good ? "for good" : "once");
    return test;
}

/* All acts of a program. */
struct bill {
    struct act acts[ACTS_MAX];
    struct CMUnitTest tests[ACTS_MAX];
    size_t count;
};

static long choose_stride(const struct torture *torture)
{
    const char *stride = getenv("FAULT_STRIDE");

    return stride != NULL ? atol(stride) : torture->stride;
}

static void add_act(struct bill *bill, const struct torture *torture, const struct scene *scene,
                    const char *store, bool for_good)
{
    struct act *act = &bill->acts[bill->count];

    *act = (struct act){
        .shortage = torture->shortage,
        .scene = scene,
        .store = store,
        .for_good = for_good,
        .stride = choose_stride(torture),
        .open_first = torture->open_first && scene->uses_store,
    };
    bill->tests[bill->count++] = make_test(act);
}

static void add_store(struct bill *bill, const struct torture *torture, const char *store)
{
    if (torture->store != NULL && strcmp(torture->store, store) != 0)
        return;
    if (simba_backend_find(store) == NULL)
        return;
    for (const struct scene *scene = torture->scenes; scene->name != NULL; scene++) {
        add_act(bill, torture, scene, store, false);
        add_act(bill, torture, scene, store, true);
    }
}

int torture_run(const struct torture *torture, const char *pattern)
{
    static struct bill bill;

    add_store(&bill, torture, "memory");
    add_store(&bill, torture, "sqlite");
    if (pattern != NULL)
        cmocka_set_test_filter(pattern);
    return _cmocka_run_group_tests("torture", bill.tests, bill.count, warm_up, NULL);
}
