/*
 * liveness.c - locks the byte of a client's own life, and looks at those of others. Must not know
 * SQLite.
 *
 * A number is the offset of the byte:
 *
 *     62                            16 15        0
 *     | stamp: of the file and boot   | drawn     |
 */
#include "backend/sqlite/liveness.h"

#include "backend/sqlite/wake.h"
#include "base/check.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRAWN_BITS 16
#define DRAWS 64
#define PROC_PATH_MAX 32

/* ---- The file -------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t add_to_hash(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
    return hash;
}

/* 0: numbers of lives cannot be had from this file, or mean nothing. */
static int64_t stamp_of(int fd, const char *boot_id)
{
    uint64_t hash = 14695981039346656037u;
    struct stat status;

    if (fstat(fd, &status) != 0 || !sb_sqlite_side_is_local(fd))
        return 0;
    hash = add_to_hash(hash, boot_id, strlen(boot_id));
    hash = add_to_hash(hash, &status.st_dev, sizeof status.st_dev);
    hash = add_to_hash(hash, &status.st_ino, sizeof status.st_ino);
    hash = hash << (DRAWN_BITS + 1) >> 1;
    return (int64_t)hash;
}

static bool has_stamp(int64_t number, int64_t stamp)
{
    return stamp != 0 && number >> DRAWN_BITS == stamp >> DRAWN_BITS;
}

static struct flock byte_lock(short type, int64_t number)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};

    return lock;
}

/* ---- One's own ------------------------------------------------------------------------------- */

void sb_sqlite_liveness_init(struct sb_sqlite_liveness *life, const struct simba_backend_host *host,
                             const struct sb_sqlite_liveness_file *file)
{
    memset(life, 0, sizeof *life);
    life->host = host;
    life->file = *file;
    atomic_init(&life->fd, -1);
}

static bool set_lock(int fd, short type, int64_t number)
{
    struct flock lock = byte_lock(type, number);

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Returns 0 where no byte can be locked, with errno. The first lock makes sure that nobody else has
 * the byte. The second takes its place without an instant between them, and can be shared. */
static int64_t lock_byte(int fd, int64_t stamp)
{
    uint64_t random = sb_random_seed();

    for (int i = 0; i < DRAWS; i++) {
        int64_t number = stamp | sb_random_between(sb_random_next(&random), 0, 1 << DRAWN_BITS);

        SB_CHECK(number > 0 && has_stamp(number, stamp), "a life has the stamp of its file");
        if (set_lock(fd, F_WRLCK, number) && set_lock(fd, F_RDLCK, number))
            return number;
        if (errno != EAGAIN && errno != EACCES)
            break;
    }
    return 0;
}

static void try_to_begin(struct sb_sqlite_liveness *life)
{
    int fd = sb_sqlite_side_open(life->file.life_path, life->file.path);
    int64_t stamp = fd >= 0 ? stamp_of(fd, life->file.boot_id) : 0;

    SB_CHECK(life->number == 0, "a life begins once");
    if (fd >= 0 && stamp == 0)
        errno = ENOTSUP;
    if (stamp != 0)
        life->number = lock_byte(fd, stamp);
    if (life->number != 0) {
        atomic_store(&life->fd, fd);
        return;
    }
    life->host->log(life->host, SIMBA_LOG_INFO,
                    "%s cannot be locked, so a crash is noticed by the end of the lease only: %s",
                    life->file.life_path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

int64_t sb_sqlite_liveness_begin(struct sb_sqlite_liveness *life)
{
    if (!life->tried)
        try_to_begin(life);
    life->tried = true;
    return life->number;
}

/* Opens the file by the descriptor: the name may lead to another file by now. The number was
 * written before the descriptor. */
int sb_sqlite_liveness_share(struct sb_sqlite_liveness *life)
{
    int own = atomic_load(&life->fd);
    char path[PROC_PATH_MAX];
    struct sb_text text;
    int fd = -1;
    int code;

    sb_text_init(&text, path, sizeof path);
    sb_text_add(&text, "/proc/self/fd/%d", own);
    if (own >= 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    else
        errno = ENOTSUP;
    if (fd < 0 || set_lock(fd, F_RDLCK, life->number))
        return fd;
    code = errno;
    close(fd);
    errno = code;
    return -1;
}

void sb_sqlite_liveness_end(struct sb_sqlite_liveness *life)
{
    int fd = atomic_exchange(&life->fd, -1);

    SB_CHECK(fd < 0 || life->number != 0, "a life that is locked has a number");
    if (fd >= 0)
        close(fd);
    life->number = 0;
}

/* ---- Those of others ------------------------------------------------------------------------- */

void sb_sqlite_liveness_probe_init(struct sb_sqlite_liveness_probe *probe,
                                   const struct sb_sqlite_liveness_file *file)
{
    memset(probe, 0, sizeof *probe);
    probe->file = *file;
    probe->fd = -1;
}

void sb_sqlite_liveness_probe_close(struct sb_sqlite_liveness_probe *probe)
{
    if (probe->fd >= 0)
        close(probe->fd);
    probe->fd = -1;
    probe->stamp = 0;
}

/* Whether the name leads to the file that was opened. */
static bool is_same_file(const struct sb_sqlite_liveness_probe *probe)
{
    struct stat named;
    struct stat opened;

    return probe->fd >= 0 && lstat(probe->file.life_path, &named) == 0 &&
           fstat(probe->fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* A number of another file may be one of the file that the name leads to by now. */
static bool find_file(struct sb_sqlite_liveness_probe *probe, int64_t number)
{
    if (has_stamp(number, probe->stamp))
        return true;
    if (is_same_file(probe))
        return false;
    sb_sqlite_liveness_probe_close(probe);
    probe->fd = sb_sqlite_side_find(probe->file.life_path);
    if (probe->fd >= 0)
        probe->stamp = stamp_of(probe->fd, probe->file.boot_id);
    return has_stamp(number, probe->stamp);
}

enum sb_sqlite_liveness_state sb_sqlite_liveness_ask(struct sb_sqlite_liveness_probe *probe,
                                                     int64_t number)
{
    struct flock lock = byte_lock(F_WRLCK, number);

    if (number <= 0 || !find_file(probe, number) || fcntl(probe->fd, F_OFD_GETLK, &lock) != 0)
        return SB_SQLITE_LIVENESS_UNKNOWN;
    return lock.l_type == F_UNLCK ? SB_SQLITE_DEAD : SB_SQLITE_ALIVE;
}

/* ---- The owners that were met ---------------------------------------------------------------- */

/* A life stays here also when its client has released what was waited for. When it ends the waiters
 * look once without need. */
void sb_sqlite_owners_init(struct sb_sqlite_owners *owners,
                           const struct sb_sqlite_liveness_file *file)
{
    sb_sqlite_liveness_probe_init(&owners->probe, file);
    pthread_mutex_init(&owners->lock, NULL);
    owners->count = 0;
}

void sb_sqlite_owners_close(struct sb_sqlite_owners *owners)
{
    sb_sqlite_liveness_probe_close(&owners->probe);
    pthread_mutex_destroy(&owners->lock);
}

bool sb_sqlite_owners_add(struct sb_sqlite_owners *owners, int64_t life)
{
    bool added = true;

    pthread_mutex_lock(&owners->lock);
    SB_CHECK(owners->count <= SB_SQLITE_OWNERS_MAX, "no more owners are kept than there is room");
    for (size_t i = 0; i < owners->count; i++)
        added = added && owners->lives[i] != life;
    if (added) {
        if (owners->count == SB_SQLITE_OWNERS_MAX)
            memmove(owners->lives, owners->lives + 1, --owners->count * sizeof owners->lives[0]);
        owners->lives[owners->count++] = life;
    }
    pthread_mutex_unlock(&owners->lock);
    return added;
}

bool sb_sqlite_owners_check(struct sb_sqlite_owners *owners)
{
    size_t kept = 0;
    bool any = false;

    pthread_mutex_lock(&owners->lock);
    for (size_t i = 0; i < owners->count; i++) {
        enum sb_sqlite_liveness_state state =
            sb_sqlite_liveness_ask(&owners->probe, owners->lives[i]);

        any = any || state == SB_SQLITE_DEAD;
        if (state == SB_SQLITE_ALIVE)
            owners->lives[kept++] = owners->lives[i];
    }
    owners->count = kept;
    pthread_mutex_unlock(&owners->lock);
    return any;
}

bool sb_sqlite_owners_any(struct sb_sqlite_owners *owners)
{
    bool needed;

    pthread_mutex_lock(&owners->lock);
    needed = owners->count > 0;
    pthread_mutex_unlock(&owners->lock);
    return needed;
}
