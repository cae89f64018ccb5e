/*
 * usage_test.c - command lines, help, and the exit codes of what cannot even begin.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void simba_alone_prints_the_help_as_an_error(void **state)
{
    assert_int_equal(simba_run((char *)NULL), 64);
    assert_string_equal(last_out(), "");
    assert_contains(last_err(), "Usage: simba");
}

static void help_lists_all_commands_and_exit_codes(void **state)
{
    static const char *const parts[] = {"lock", "status", "watch", "tck", "--url", "--ttl",    "64",
                                        "69",   "70",     "75",    "77",  "78",    "SIMBA_URL"};

    assert_int_equal(simba_run("--help", NULL), 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_contains(last_out(), parts[i]);
    assert_string_equal(last_err(), "");
}

static void every_command_has_a_help_with_examples_and_exit_codes(void **state)
{
    static const char *const verbs[] = {"lock", "status", "watch", "tck"};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        assert_int_equal(simba_run(verbs[i], "--help", NULL), 0);
        assert_contains(last_out(), "Usage: simba ");
        assert_contains(last_out(), verbs[i]);
        assert_contains(last_out(), "Examples:");
        assert_contains(last_out(), "Exit codes:");
        assert_contains(last_out(), "--url");
        assert_int_equal(simba_run("-h", verbs[i], NULL), 0);
        assert_contains(last_out(), "Usage: simba ");
    }
}

static void version_is_printed_before_and_after_a_command(void **state)
{
    assert_int_equal(simba_run("-V", NULL), 0);
    assert_contains(last_out(), "simba 0.");
    assert_int_equal(simba_run("status", "--version", NULL), 0);
    assert_contains(last_out(), "simba 0.");
    assert_int_equal(simba_run("version", NULL), 0);
    assert_contains(last_out(), "simba 0.");
}

static void a_misspelt_command_or_option_is_told_what_may_be_meant(void **state)
{
    static const char *const lines[][4] = {
        {"unknown verb 'lokc'; did you mean 'lock'?", "lokc"},
        {"unknown verb 'stauts'; did you mean 'status'?", "stauts"},
        {"unknown verb 'list'; did you mean 'status'?", "list"},
        {"--url is given twice", "-umemory:a", "-umemory:b", "status"},
        {"--config is given twice", "-cone", "status", "-ctwo"},
        {"unknown verb 'hlep'; did you mean 'help'?", "hlep"},
        {"unknown option '--wiat'; did you mean '--wait'?", "lock", "--wiat=5s"},
        {"unknown option '--kill-afer'; did you mean '--kill-after'?", "lock", "--kill-afer"},
        {"unknown option '--ulr'; did you mean '--url'?", "--ulr=sqlite:x", "status"},
        {"--wait goes after the verb: simba lock --wait DURATION", "--wait=5s", "lock"},
        {"-n goes after the verb: simba lock -n", "-qn", "lock"},
        {"--kill-after goes after the verb: simba lock --kill-after DURATION", "--kill-after"},
        {"--json goes after the verb: simba status --json", "--json", "status"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(simba_run(lines[i][1], lines[i][2], lines[i][3], NULL), 64);
        assert_contains(last_err(), lines[i][0]);
    }
    assert_int_equal(simba_run("nonsense", NULL), 64);
    assert_contains(last_err(), "unknown verb 'nonsense'\n");
    assert_int_equal(simba_run("lock", "--nonsense", NULL), 64);
    assert_contains(last_err(), "unknown option '--nonsense'\n");
}

static void a_wrong_command_line_is_64_with_a_hint(void **state)
{
    static const char *const lines[][7] = {
        {"nonsense"},
        {"--nonsense"},
        {"-x"},
        {"lock"},
        {"lock", "m"},
        {"lock", "m", "--"},
        {"lock", "--nonsense", "m", "--", "true"},
        {"lock", "-n", "-w", "1s", "m", "true"},
        {"lock", "-w", "soon", "m", "true"},
        {"lock", "-w", "-1s", "m", "true"},
        {"lock", "-E", "256", "m", "true"},
        {"lock", "-E", "x", "m", "true"},
        {"lock", "m", "-w"},
        {"lock", "--no-wait=yes", "m", "true"},
        {"--ttl", "99999999999999999999h", "status"},
        {"status", "--log-level", "loud"},
        {"tck", "extra"},
        {"tck", "--case", "nonsense"},
        {"tck", "--contenders", "0"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *const *line = lines[i];
        assert_int_equal(
            simba_run(line[0], line[1], line[2], line[3], line[4], line[5], line[6], NULL), 64);
        assert_string_equal(last_out(), "");
        assert_memory_equal(last_err(), "simba: ", 7);
        assert_contains(last_err(), "--help'");
    }
}

static void options_stand_before_and_after_the_name_but_not_behind_the_command(void **state)
{
    assert_int_equal(simba_run("lock", "-nq", "m", "--", "echo", "-n", "--", "-q", NULL), 0);
    assert_string_equal(last_out(), "-- -q");
    assert_int_equal(
        simba_run("lock", "m", "-w5s", "--kill-after=50ms", "printf", "%s\n", "--help", NULL), 0);
    assert_string_equal(last_out(), "--help\n");
}

/* Otherwise the command would be taken for the name, and its first argument for the command. */
static void a_command_without_a_name_is_a_mistake(void **state)
{
    static const char *const verbs[] = {"lock", "lead", "schedule"};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        assert_int_equal(simba_run(verbs[i], "--", "touch", "ran", NULL), 64);
        assert_contains(last_err(), "the NAME of a mutex is missing");
        assert_int_equal(simba_run(verbs[i], "--", "true", NULL), 64);
        assert_contains(last_err(), "the NAME of a mutex is missing");
    }
    assert_false(file_exists("ran"));
}

static void a_name_that_begins_with_a_dash_stands_between_two_double_dashes(void **state)
{
    assert_int_equal(simba_run("lock", "-w", "5s", "--", "-m", "--", "echo", "a", NULL), 0);
    assert_string_equal(last_out(), "a\n");
    assert_int_equal(simba_run("status", "--json", "--", "-m", NULL), 0);
    assert_contains(last_out(), "\"mutex\":\"-m\"");
    assert_int_equal(simba_run("lock", "--", "-m", "--", NULL), 64);
    assert_contains(last_err(), "the COMMAND is missing");
}

static void global_options_stand_before_and_after_the_command(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("-q", "--no-color", "lock", "-n", "m", "--", "true", NULL), 75);
    assert_string_equal(last_err(), "");
    assert_int_equal(simba_run("lock", "-n", "--no-color", "--quiet", "m", "--", "true", NULL), 75);
    assert_string_equal(last_err(), "");
    assert_int_equal(simba_run("--log-level", "info", "init", NULL), 0);
    assert_contains(last_err(), "simba: the store is sqlite:");
    assert_int_equal(simba_run("init", "--log-level", "info", NULL), 0);
    assert_contains(last_err(), "simba: the store is sqlite:");
    assert_int_equal(simba_run("tck", "--case", "start", "--log-level=info", NULL), 0);
    assert_contains(last_err(), "simba: the store is sqlite:");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void the_help_tells_the_default_of_every_duration(void **state)
{
    assert_int_equal(simba_run("lock", "--help", NULL), 0);
    assert_contains(last_out(), "from SIGTERM to SIGKILL (a third of the\n");
    assert_contains(last_out(), " transition, at most 5s)\n");
}

static void an_invalid_url_name_id_or_timing_is_78(void **state)
{
    static const char *const lines[][6] = {
        {"-u", "nonsense:x", "status"},
        {"-u", "sqlite", "status"},
        {"-u", "sqlite:x.db?ttl=soon", "status"},
        {"-u", "sqlite:x.db?nonsense=1", "status"},
        {"-u", "sqlite://host/x.db", "status"},
        {"-u", "memory:x", "lock", "m", "--", "true"},
        {"lock", " ", "--", "true"},
        {"lock", "a\nb", "--", "true"},
        {"lock", "--id", "a@@b", "m", "true"},
        {"lock", "--exact-id", "a@@b", "m", "true"},
        {"--transition", "1ms", "lock", "m", "true"},
        {"lock", "-k", "10s", "m", "true"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *const *line = lines[i];
        int status = simba_run(line[0], line[1], line[2], line[3], line[4], line[5], NULL);
        if (status != 78)
            print_error("line %zu: %s", i, last_err());
        assert_int_equal(status, 78);
        assert_memory_equal(last_err(), "simba: ", 7);
        assert_int_equal(count_lines(last_err()), 1);
    }
}

/* Also while somebody else owns: the wait would be for nothing. */
static void a_kill_after_that_is_too_long_is_refused_before_the_wait(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-n", "-k", "500ms", "m", "--", "true", NULL), 78);
    assert_contains(last_err(), "--kill-after 500ms");
    assert_int_equal(simba_run("lock", "-n", "-k", "4s", "--transition", "10s", "m", "true", NULL),
                     75);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void a_bad_environment_is_78(void **state)
{
    setenv("SIMBA_LOG", "loud", 1);
    int status = simba_run("status", NULL);
    unsetenv("SIMBA_LOG");
    assert_int_equal(status, 78);
    assert_contains(last_err(),
                    "SIMBA_LOG: 'loud' is not a level: write none, error, warn, info or debug\n");
}

static void without_a_url_the_store_is_in_the_state_folder_of_the_user(void **state)
{
    struct stat info;
    char home[256];

    assert_non_null(getcwd(home, sizeof home));
    unsetenv("SIMBA_URL");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", home, 1);
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    assert_int_equal(stat(".local/state/simba", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_true(file_exists(".local/state/simba/simba.db"));

    strcat(home, "/with 100% ?");
    setenv("XDG_STATE_HOME", home, 1);
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    assert_true(file_exists("with 100% ?/simba/simba.db"));
}

static void without_a_url_and_a_home_it_is_78_and_says_what_to_do(void **state)
{
    unsetenv("SIMBA_URL");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 78);
    assert_contains(last_err(), "HOME");
    assert_contains(last_err(), "--url");
}

static void a_store_that_cannot_be_opened_is_69_and_nothing_runs(void **state)
{
    assert_int_equal(
        simba_run("-u", "sqlite:no/such/folder/x.db", "lock", "m", "--", "touch", "ran", NULL), 69);
    assert_memory_equal(last_err(), "simba: ", 7);
    assert_false(file_exists("ran"));
}

static void a_file_that_is_no_database_is_69_and_nothing_runs(void **state)
{
    file_write("text", "this is not a database, and it is longer than a header would be: "
                       "0123456789012345678901234567890123456789012345678901234567890123456789\n");
    assert_int_equal(simba_run("-u", "sqlite:text", "lock", "m", "--", "touch", "ran", NULL), 69);
    assert_false(file_exists("ran"));
}

static void output_that_cannot_be_written_is_an_error(void **state)
{
    char command[512];

    snprintf(command, sizeof command, "%s --help >/dev/full 2>err.full", getenv("SIMBA_PROGRAM"));
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 74);
    assert_contains(file_read("err.full"), "simba: ");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(simba_alone_prints_the_help_as_an_error),
        CASE(help_lists_all_commands_and_exit_codes),
        CASE(every_command_has_a_help_with_examples_and_exit_codes),
        CASE(version_is_printed_before_and_after_a_command),
        CASE(a_misspelt_command_or_option_is_told_what_may_be_meant),
        CASE(a_wrong_command_line_is_64_with_a_hint),
        CASE(options_stand_before_and_after_the_name_but_not_behind_the_command),
        CASE(a_command_without_a_name_is_a_mistake),
        CASE(a_name_that_begins_with_a_dash_stands_between_two_double_dashes),
        CASE(global_options_stand_before_and_after_the_command),
        CASE(the_help_tells_the_default_of_every_duration),
        CASE(an_invalid_url_name_id_or_timing_is_78),
        CASE(a_kill_after_that_is_too_long_is_refused_before_the_wait),
        CASE(a_bad_environment_is_78),
        CASE(without_a_url_the_store_is_in_the_state_folder_of_the_user),
        CASE(without_a_url_and_a_home_it_is_78_and_says_what_to_do),
        CASE(a_store_that_cannot_be_opened_is_69_and_nothing_runs),
        CASE(a_file_that_is_no_database_is_69_and_nothing_runs),
        CASE(output_that_cannot_be_written_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
