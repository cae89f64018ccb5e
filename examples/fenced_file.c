/*
 * fenced_file.c - a file that refuses late writes.
 *
 *     fenced_file [URL [FILE]]
 *
 * A process can be paused right after it saw that it owns, and write when another one owns already.
 * No lease can prevent that; the resource can. Beside FILE stands FILE.fence with the largest token
 * that has written. A writer brings its token; a smaller one than that is refused, whatever its
 * bearer believes.
 */
#include <simba/simba.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_SIZE 512

enum outcome { WRITTEN, REFUSED, FAILED };

/* Returns whether all of it is on the disk. */
static int write_all(int file, const char *text)
{
    size_t length = strlen(text);

    return pwrite(file, text, length, 0) == (ssize_t)length &&
           ftruncate(file, (off_t)length) == 0 && fsync(file) == 0;
}

/* 0 when nothing was written yet, UINT64_MAX when it cannot be read: then nobody may write. */
static uint64_t read_token(int file)
{
    char text[32] = "";
    ssize_t length = pread(file, text, sizeof(text) - 1, 0);

    if (length < 0)
        return UINT64_MAX;
    return strtoull(text, NULL, 10);
}

/* The file is replaced as a whole, so that a reader sees the old text or the new one. */
static enum outcome replace(const char *path, const char *text)
{
    char fresh[PATH_SIZE];
    int file, written;

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    file = open(fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return FAILED;
    written = write_all(file, text);
    close(file);
    return written && rename(fresh, path) == 0 ? WRITTEN : FAILED;
}

/* The token goes first: when the process dies in between, nothing older can write any more. A token
 * may write more than once, since it stays the same for a whole term. */
static enum outcome write_locked(int fence, const char *path, uint64_t token, const char *text)
{
    char number[32];

    if (token < read_token(fence))
        return REFUSED;
    snprintf(number, sizeof(number), "%" PRIu64 "\n", token);
    return write_all(fence, number) ? replace(path, text) : FAILED;
}

/* The lock of the fence makes comparison and write one step. */
static enum outcome fenced_write(const char *path, uint64_t token, const char *text)
{
    char name[PATH_SIZE];
    enum outcome outcome = FAILED;
    int fence;

    snprintf(name, sizeof(name), "%s.fence", path);
    fence = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fence < 0)
        return FAILED;
    if (flock(fence, LOCK_EX) == 0)
        outcome = write_locked(fence, path, token, text);
    close(fence);
    return outcome;
}

static int report(const char *who, uint64_t token, enum outcome outcome, enum outcome expected)
{
    static const char *const words[] = {"written", "refused", "failed"};

    printf("%s, token %" PRIu64 ": %s\n", who, token, words[outcome]);
    return outcome == expected ? SIMBA_OK : SIMBA_ESTORE;
}

/* Acquires, and returns the token in *ret_token. */
static int begin(simba_client *client, simba_locker **lock, uint64_t *ret_token,
                 struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code;

    options.mutex = "example-fenced-file";
    code = simba_locker_create(client, &options, lock, error);
    if (code == SIMBA_OK)
        code = simba_locker_acquire_timeout(*lock, 5000, error);
    if (code == SIMBA_OK)
        *ret_token = simba_locker_fence(*lock);
    return code;
}

static int run(const char *url, const char *path, struct simba_error *error)
{
    SIMBA_SCOPED(client) simba_client *client = NULL;
    SIMBA_SCOPED(locker) simba_locker *first = NULL;
    SIMBA_SCOPED(locker) simba_locker *second = NULL;
    uint64_t old_token = 0, token = 0;
    int code = simba_client_open(url, NULL, &client, error);

    if (code == SIMBA_OK)
        code = begin(client, &first, &old_token, error);
    if (code == SIMBA_OK)
        code =
            report("the first owner", old_token, fenced_write(path, old_token, "first\n"), WRITTEN);
    if (code == SIMBA_OK)
        code = simba_locker_release(first, error);
    if (code == SIMBA_OK)
        code = begin(client, &second, &token, error);
    if (code == SIMBA_OK)
        code = report("the second owner", token, fenced_write(path, token, "second\n"), WRITTEN);
    /* As if the first one had slept since it asked, and woke up now. */
    if (code == SIMBA_OK)
        code = report("the first owner, late", old_token, fenced_write(path, old_token, "late\n"),
                      REFUSED);
    return code;
}

int main(int argc, char **argv)
{
    struct simba_error error = {0};
    int code =
        run(argc > 1 ? argv[1] : "sqlite:example.db", argc > 2 ? argv[2] : "fenced.txt", &error);

    if (code != SIMBA_OK)
        fprintf(stderr, "fenced_file: %s\n",
                error.code != SIMBA_OK ? error.text : simba_strerror(code));
    return code == SIMBA_OK ? 0 : 1;
}
