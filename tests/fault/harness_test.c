/*
 * harness_test.c - the torture notices what it is there for: scenes that make one mistake each
 * fail.
 *
 * Each runs in a process of its own, because it is meant to fail.
 */
#include "heap.h"
#include "test.h"
#include "torture.h"

#include "base/alloc.h"

#include <simba/simba.h>

#include <fcntl.h>
#include <sys/wait.h>

static struct shortage allocations = {.piece = "allocation", .code = SIMBA_ENOMEM};

/* ---- Scenes ---------------------------------------------------------------------------------- */

static void play_well(struct stage *s)
{
    stage_client(s);
}

/* Forgets a block when the next one cannot be had. */
static void leak_memory(struct stage *s)
{
    char *first = sb_strdup("first");
    char *second = sb_strdup("second");

    (void)s;
    if (second == NULL)
        return;
    sb_free(second);
    sb_free(first);
}

static void leak_descriptor(struct stage *s)
{
    char *path = sb_strdup("/dev/null");

    (void)s;
    if (path == NULL)
        (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    sb_free(path);
}

static int try_once(struct simba_error *error)
{
    char *memory = sb_strdup("memory");

    sb_free(memory);
    if (memory != NULL)
        return SIMBA_OK;
    error->code = SIMBA_ENOMEM;
    snprintf(error->text, sizeof error->text, "out of memory");
    return SIMBA_ENOMEM;
}

static void give_up(struct stage *s)
{
    struct simba_error error = {0};

    stage_ok(s, STAGE_HEALS, "a call that should go on", try_once(&error), &error);
}

static void blame_another(struct stage *s)
{
    struct simba_error error = {0};
    int code = try_once(&error);

    stage_ok(s, STAGE_MAY_FAIL, "a call", code == SIMBA_OK ? SIMBA_OK : SIMBA_ESTORE, &error);
}

static void say_nothing(struct stage *s)
{
    struct simba_error error = {0};
    int code = try_once(&error);

    error.text[0] = '\0';
    stage_ok(s, STAGE_MAY_FAIL, "a call", code, &error);
}

static void use_nothing(struct stage *s)
{
    (void)s;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* How the torture of one scene ends. */
static int run_scene(void (*play)(struct stage *stage), const char *pattern)
{
    const struct scene scene[] = {{"a scene", "ttl=10s&transition=2s", false, play},
                                  {NULL, NULL, false, NULL}};
    const struct torture torture = {
        .shortage = &allocations, .scenes = scene, .store = "memory", .stride = 1};
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        int silence = open("/dev/null", O_WRONLY);

        dup2(silence, STDOUT_FILENO);
        dup2(silence, STDERR_FILENO);
        _exit(torture_run(&torture, pattern));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_scene_without_mistakes_passes(void **state)
{
    assert_int_equal(run_scene(play_well, "*"), 0);
}

static void a_mistake_is_noticed(void **state)
{
    static const struct {
        void (*play)(struct stage *stage);
        const char *pattern;
    } mistakes[] = {
        {leak_memory, "*once"}, {leak_memory, "*for good"},   {leak_descriptor, "*once"},
        {give_up, "*once"},     {blame_another, "*for good"}, {say_nothing, "*once"},
        {use_nothing, "*once"},
    };

    for (size_t i = 0; i < TEST_COUNT(mistakes); i++)
        if (run_scene(mistakes[i].play, mistakes[i].pattern) == 0)
            fail_msg("mistake %zu was not noticed", i);
}

/* A call that says that there is no memory while there is some. */
static void lie(struct stage *s)
{
    struct simba_error error = {SIMBA_ENOMEM, 0, "out of memory"};

    stage_ok(s, STAGE_MAY_FAIL, "a call", SIMBA_ENOMEM, &error);
}

static void a_failure_without_a_cause_is_noticed(void **state)
{
    assert_int_not_equal(run_scene(lie, "*for good"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scene_without_mistakes_passes),
        cmocka_unit_test(a_mistake_is_noticed),
        cmocka_unit_test(a_failure_without_a_cause_is_noticed),
    };

    if (heap_install(&allocations) != SIMBA_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
