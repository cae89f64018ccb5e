"""Makes simba_lock._native, the extension module, from simba.h itself.

Every function, struct and constant of the header is declared: what the header gains, the module gains. pkg-config says
where the library is. At run time it is looked up there, too; with SIMBA_WHEEL set, in the package's folder `lib`.
"""
import os
import re
import shlex
import subprocess

from cffi import FFI

# The log function of a client is called on threads that must never wait for the interpreter's lock: a renewal could be
# late. So lines go into a ring, and a thread of the interpreter takes them.
LOG = """
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SB_LINES 256
#define SB_LINE_SIZE 512

static struct {
    pthread_mutex_t lock;
    unsigned first, count;
    unsigned long lost;
    int fd;
    int level[SB_LINES];
    char line[SB_LINES][SB_LINE_SIZE];
} sb_ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static void simba_python_log(void *user, enum simba_log_level level, const char *line)
{
    unsigned at;

    (void)user;
    pthread_mutex_lock(&sb_ring.lock);
    if (sb_ring.count == SB_LINES) {
        sb_ring.lost++;
    } else {
        at = (sb_ring.first + sb_ring.count++) % SB_LINES;
        sb_ring.level[at] = level;
        strncpy(sb_ring.line[at], line, SB_LINE_SIZE - 1);
        if (sb_ring.fd >= 0)
            eventfd_write(sb_ring.fd, 1);
    }
    pthread_mutex_unlock(&sb_ring.lock);
}

/* Also in a child of fork, which has a ring and a descriptor of its own. */
static int simba_python_log_open(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    sb_ring.lock = lock;
    sb_ring.first = sb_ring.count = 0;
    sb_ring.fd = eventfd(0, EFD_CLOEXEC);
    return sb_ring.fd >= 0 ? 0 : -1;
}

/* Waits for a line. Returns its level, and how many lines had no room before it. */
static int simba_python_log_next(char *ret_line, unsigned long *ret_lost)
{
    eventfd_t ignored;
    int level = -1;

    do {
        pthread_mutex_lock(&sb_ring.lock);
        if (sb_ring.count > 0) {
            level = sb_ring.level[sb_ring.first];
            memcpy(ret_line, sb_ring.line[sb_ring.first], SB_LINE_SIZE);
            sb_ring.first = (sb_ring.first + 1) % SB_LINES;
            sb_ring.count--;
            *ret_lost = sb_ring.lost;
            sb_ring.lost = 0;
        }
        pthread_mutex_unlock(&sb_ring.lock);
    } while (level < 0 && (eventfd_read(sb_ring.fd, &ignored) == 0 || errno == EINTR));
    return level;
}

static void simba_python_client_options(struct simba_client_options *options)
{
    struct simba_client_options initial = SIMBA_CLIENT_OPTIONS_INIT;

    *options = initial;
    options->log = simba_python_log;
    options->pull_events = true;
}

/* Waits at most that long for the descriptor of a client's events. */
static int simba_python_wait(int fd, int timeout_ms)
{
    struct pollfd ready = {fd, POLLIN, 0};

    return poll(&ready, 1, timeout_ms);
}
"""
LOG_DECLARATIONS = """
int simba_python_log_open(void);
int simba_python_log_next(char *ret_line, unsigned long *ret_lost);
void simba_python_client_options(struct simba_client_options *options);
int simba_python_wait(int fd, int timeout_ms);
"""


def pkg_config(option):
    try:
        found = subprocess.run(["pkg-config", option, "simba"], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("pkg-config is not installed; it tells where the library is") from None
    if found.returncode != 0:
        raise SystemExit(f"{found.stderr}Install the library first; if it is installed, name the folder of simba.pc in "
                         "PKG_CONFIG_PATH.")
    return shlex.split(found.stdout)


def read_header(folders):
    for folder in folders + ["/usr/include", "/usr/local/include"]:
        path = os.path.join(folder, "simba/simba.h")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise SystemExit("simba/simba.h was not found; is the library installed, and does pkg-config know it?")


def declarations(header):
    """The header as cffi reads it: without includes, attributes and C++."""
    text = re.sub(r"^#include.*$", "", header, flags=re.MULTILINE)
    command = [os.environ.get("CC", "cc"), "-E", "-P", "-xc", "-U__GNUC__", "-D__STDC_VERSION__=199901L", "-w", "-"]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def constants(header):
    """The macros of the header that are numbers."""
    for name in re.findall(r"^#define (SIMBA_\w+) \(?-?(?:\d+|INT64_M\w+)\b", header, flags=re.MULTILINE):
        yield f"static const int64_t {name};"


def initialisers(header):
    """A function for each ..._INIT macro, as pairs of declaration and definition."""
    for macro in re.findall(r"^#define (SIMBA_\w+_INIT)\b", header, flags=re.MULTILINE):
        struct = "simba_" + macro[len("SIMBA_"):-len("_INIT")].lower()
        name = f"void simba_python_init_{struct[len('simba_'):]}(struct {struct} *it)"
        yield name + ";", f"static {name}\n{{\n    struct {struct} initial = {macro};\n\n    *it = initial;\n}}\n"


def make():
    cflags, libs = pkg_config("--cflags"), pkg_config("--libs")
    header = read_header([flag[2:] for flag in cflags if flag.startswith("-I")])
    functions = list(initialisers(header))
    folders = ["$ORIGIN/lib"] if os.environ.get("SIMBA_WHEEL") else [flag[2:] for flag in libs if flag.startswith("-L")]
    rpath = [f"-Wl,-rpath,{folder}" for folder in folders]
    builder = FFI()
    builder.cdef("\n".join([declarations(header), LOG_DECLARATIONS, *constants(header), *(d for d, _ in functions)]))
    builder.set_source("simba_lock._native",
                       "#include <simba/simba.h>\n" + LOG + "\n".join(text for _, text in functions),
                       extra_compile_args=cflags, extra_link_args=libs + rpath)
    return builder


ffi = make()

if __name__ == "__main__":
    ffi.compile(verbose=True)
