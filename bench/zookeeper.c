/*
 * zookeeper.c - measures the library on ZooKeeper, in the same run and in turns
 *
 *     hand-over to a waiter           against delete + watch with the client library by hand, which is the least
 *                                     that it can take, the same + children + data, which is the usual recipe,
 *                                     and against Apache Curator's LeaderLatch
 *     mutexes led by one client       wall time, memory and threads beside Curator's for the same
 *
 *     bench-zookeeper [ROUNDS [MUTEXES]]
 *
 * It starts a server of its own with the usual durable settings. Curator takes part where
 * SIMBA_BENCH_CURATOR is the class path of CuratorLatches.
 */
#define THREADED
#include <zookeeper/zookeeper.h>

#include <simba/simba.h>

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 20 /* measurements of one side before the next has its turn */
#define WARM_UP 5000
#define PORT 21810
#define HOST "127.0.0.1:21810"
#define URL "zookeeper://" HOST "?session-timeout=40s"
#define RESOLUTION_DELAY_MS 10000

static char folder[] = "/tmp/simba-bench-XXXXXX";
static pid_t server;
static FILE *to_curator;
static FILE *from_curator;

/* ---- Helpers -------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void end(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static void check(int code, const struct simba_error *error)
{
    if (code != SIMBA_OK)
        end(error->text);
}

static void check_zk(int code)
{
    if (code != ZOK)
        end(zerror(code));
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static long status_of(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name) + 1);
    if (file != NULL)
        fclose(file);
    return value;
}

/* ---- Samples -------------------------------------------------------------------------------- */

struct samples {
    double us[100000];
    size_t count;
};

static struct samples heard_samples; /* until the watch fired, which is where raw_samples go on */
static struct samples raw_samples;
static struct samples our_samples;
static struct samples curator_samples;
static struct samples ratios; /* of the medians of each round: ours to Curator's */

static void add(struct samples *samples, double us)
{
    if (samples->count < sizeof samples->us / sizeof samples->us[0])
        samples->us[samples->count++] = us;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static double median(struct samples *samples)
{
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    return samples->count > 0 ? samples->us[samples->count / 2] : 0;
}

static void print(const char *what, struct samples *samples)
{
    double p50 = median(samples);

    if (samples->count > 0)
        printf("%-52s p50 %7.1f us  p90 %7.1f us\n", what, p50,
               samples->us[(samples->count - 1) * 9 / 10]);
}

/* The samples that were added since `from`. */
static double median_since(const struct samples *samples, size_t from)
{
    static struct samples part;

    part.count = samples->count - from;
    memcpy(part.us, samples->us + from, part.count * sizeof *part.us);
    return median(&part);
}

/* ---- The server ----------------------------------------------------------------------------- */

static void run_server(void)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "%s/zoo.cfg", folder);
    file = fopen(path, "we");
    if (file == NULL)
        _exit(1);
    fprintf(file,
            "tickTime=2000\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n",
            folder, PORT);
    fclose(file);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("java", "java", "-Xmx512m", "-cp",
           "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar",
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", path, (char *)NULL);
    _exit(1);
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

/* Otherwise the client library looks up the server's name with every packet, which nobody has to. */
static void resolve_seldom(zhandle_t *handle)
{
#ifdef SIMBA_HAVE_ZOOKEEPER_RESOLUTION_DELAY
    zoo_set_servers_resolution_delay(handle, RESOLUTION_DELAY_MS);
#else
    (void)handle;
#endif
}

static zhandle_t *connect_raw(void)
{
    zhandle_t *handle = zookeeper_init(HOST, on_event, 30000, NULL, NULL, ZOO_NO_LOG_CLIENTENV);

    if (handle == NULL)
        end("no handle");
    resolve_seldom(handle);
    for (int i = 0; i < 30000 && zoo_state(handle) != ZOO_CONNECTED_STATE; i++)
        pause_ms(1);
    if (zoo_state(handle) != ZOO_CONNECTED_STATE)
        end("the server does not answer");
    return handle;
}

/* A JVM is slow until it has seen some work. */
static void warm_up(zhandle_t *handle)
{
    check_zk(zoo_create(handle, "/bench", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0));
    for (int i = 0; i < WARM_UP; i++) {
        check_zk(
            zoo_create(handle, "/bench/warm", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
        check_zk(zoo_delete(handle, "/bench/warm", -1));
    }
}

/* ---- By hand -------------------------------------------------------------------------------- */

struct hand {
    zhandle_t *handle;
    char node[128];
};

static sem_t fired;

static void on_fired(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    (void)context;
    if (type == ZOO_DELETED_EVENT)
        sem_post(&fired);
}

static void join_raw(struct hand *hand)
{
    check_zk(zoo_create(hand->handle, "/bench/raw/latch-", "id", 2, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL_SEQUENTIAL, hand->node, sizeof hand->node));
}

struct waiting {
    struct hand *hand;
    double heard_us;
    double done_us;
};

static void *wait_raw(void *argument)
{
    struct waiting *waiting = argument;
    struct String_vector children;
    char data[64];
    int length = sizeof data;

    sem_wait(&fired);
    waiting->heard_us = now_us();
    check_zk(zoo_get_children(waiting->hand->handle, "/bench/raw", 0, &children));
    check_zk(zoo_get(waiting->hand->handle, waiting->hand->node, 0, data, &length, NULL));
    waiting->done_us = now_us();
    deallocate_String_vector(&children);
    return NULL;
}

static void measure_raw(struct hand hands[2])
{
    join_raw(&hands[0]);
    for (int i = 0; i < BLOCK; i++) {
        struct hand *from = &hands[i % 2];
        struct hand *to = &hands[1 - i % 2];
        struct waiting waiting = {to, 0, 0};
        char data[64];
        int length = sizeof data;
        pthread_t thread;
        double begin;

        join_raw(to);
        check_zk(zoo_wget(to->handle, from->node, on_fired, NULL, data, &length, NULL));
        pthread_create(&thread, NULL, wait_raw, &waiting);
        pause_ms(3);
        begin = now_us();
        check_zk(zoo_delete(from->handle, from->node, -1));
        pthread_join(thread, NULL);
        add(&heard_samples, waiting.heard_us - begin);
        add(&raw_samples, waiting.done_us - begin);
    }
    check_zk(zoo_delete(hands[BLOCK % 2].handle, hands[BLOCK % 2].node, -1));
}

/* ---- Through the library -------------------------------------------------------------------- */

static _Atomic double acquired_us;

struct side {
    simba_client *client;
    simba_contender *contender;
    sem_t leads;
};

static void on_acquired(void *user, const struct simba_state *state)
{
    struct side *side = user;

    (void)state;
    atomic_store(&acquired_us, now_us());
    sem_post(&side->leads);
}

static void open_side(struct side *side)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;

    sem_init(&side->leads, 0, 0);
    options.mutex = "over";
    options.on_acquired = on_acquired;
    options.user = side;
    check(simba_client_open(URL, NULL, &side->client, &error), &error);
    check(simba_contender_create(side->client, &options, &side->contender, &error), &error);
}

static void await_participants(zhandle_t *raw, int count)
{
    struct String_vector children = {0, NULL};

    do {
        deallocate_String_vector(&children);
        pause_ms(1);
        check_zk(zoo_get_children(raw, "/simba/over", 0, &children));
    } while (children.count != count);
    deallocate_String_vector(&children);
}

static void measure_ours(zhandle_t *raw, struct side sides[2])
{
    struct simba_error error;

    check(simba_contender_start(sides[0].contender, &error), &error);
    sem_wait(&sides[0].leads);
    for (int i = 0; i < BLOCK; i++) {
        struct side *from = &sides[i % 2];
        struct side *to = &sides[1 - i % 2];
        double begin;

        check(simba_contender_start(to->contender, &error), &error);
        await_participants(raw, 2);
        pause_ms(3);
        begin = now_us();
        check(simba_contender_stop(from->contender, &error), &error);
        sem_wait(&to->leads);
        add(&our_samples, atomic_load(&acquired_us) - begin);
    }
    check(simba_contender_stop(sides[BLOCK % 2].contender, &error), &error);
}

/* ---- Curator -------------------------------------------------------------------------------- */

static void start_curator(void)
{
    const char *classpath = getenv("SIMBA_BENCH_CURATOR");
    int input[2];
    int output[2];

    if (classpath == NULL)
        return;
    if (pipe(input) != 0 || pipe(output) != 0)
        end("no pipe");
    if (fork() == 0) {
        dup2(input[0], 0);
        dup2(output[1], 1);
        close(input[1]);
        close(output[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("java", "java", "-cp", classpath, "CuratorLatches", HOST, (char *)NULL);
        _exit(1);
    }
    close(input[0]);
    close(output[1]);
    to_curator = fdopen(input[1], "w");
    from_curator = fdopen(output[0], "r");
}

static void measure_curator(bool keep)
{
    char line[8192];
    char *rest = line;

    if (to_curator == NULL)
        return;
    fprintf(to_curator, "handover %d\n", BLOCK);
    fflush(to_curator);
    if (fgets(line, sizeof line, from_curator) == NULL)
        end("Curator has ended");
    for (int i = 0; i < BLOCK; i++) {
        double us = strtod(rest, &rest);

        if (keep)
            add(&curator_samples, us);
    }
}

/* ---- Many ----------------------------------------------------------------------------------- */

static _Atomic int led;
static _Atomic int lost;

static void on_led(void *user, const struct simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&led, 1);
}

static void on_lost(void *user, const struct simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&lost, 1);
}

static void measure_many(int count)
{
    simba_contender **contenders = calloc((size_t)count, sizeof(simba_contender *));
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    simba_client *client;
    char name[32];
    double begin;
    double wall_us;

    check(simba_client_open(URL "&ttl=5s&transition=11s", NULL, &client, &error), &error);
    options.mutex = name;
    options.on_acquired = on_led;
    options.on_released = on_lost;
    begin = now_us();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        check(simba_contender_create(client, &options, &contenders[i], &error), &error);
        check(simba_contender_start(contenders[i], &error), &error);
    }
    while (atomic_load(&led) < count)
        pause_ms(1);
    wall_us = now_us() - begin;
    printf("%d mutexes led by one client: %.2f s, %ld threads, %ld MB\n", count, wall_us / 1e6,
           status_of("Threads"), status_of("VmRSS") / 1024);
    pause_ms(12000);
    printf("after 12 s, two renewals of each: %d lost\n", atomic_load(&lost));
    for (int i = 0; i < count; i++)
        simba_contender_close(contenders[i]);
    check(simba_client_close(client, &error), &error);
    free(contenders);
}

static void measure_many_curator(int count)
{
    long ms;
    long threads;
    long megabytes;

    if (to_curator == NULL)
        return;
    fprintf(to_curator, "many %d\n", count);
    fflush(to_curator);
    if (fscanf(from_curator, "%ld %ld %ld", &ms, &threads, &megabytes) != 3)
        end("Curator has ended");
    printf("the same by Curator: %.2f s, %ld threads, %ld MB\n", (double)ms / 1000, threads,
           megabytes);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static void measure_round(struct hand hands[2], struct side sides[2])
{
    size_t ours = our_samples.count;
    size_t theirs = curator_samples.count;

    measure_raw(hands);
    measure_ours(hands[0].handle, sides);
    measure_curator(true);
    if (curator_samples.count > theirs)
        add(&ratios, median_since(&our_samples, ours) / median_since(&curator_samples, theirs));
}

static void print_ratios(void)
{
    double usual = median(&ratios); /* sorts them */

    printf("%-52s %.2f (at most 1.50)\n", "the library to by hand, of the medians",
           median(&our_samples) / median(&raw_samples));
    if (ratios.count > 0) {
        printf("%-52s %.2f\n", "delete + watch by hand to Curator, of the medians",
               median(&heard_samples) / median(&curator_samples));
        printf("%-52s %.2f (at most 0.70), of rounds %.2f, %.2f to %.2f\n",
               "the library to Curator, of the medians",
               median(&our_samples) / median(&curator_samples), usual, ratios.us[0],
               ratios.us[ratios.count - 1]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    int mutexes = argc > 2 ? atoi(argv[2]) : 5000;
    struct hand hands[2];
    struct side sides[2];

    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level((ZooLogLevel)0);
    if (mkdtemp(folder) == NULL)
        end(strerror(errno));
    atexit(clean_up);
    server = fork();
    if (server == 0)
        run_server();
    hands[0].handle = connect_raw();
    hands[1].handle = connect_raw();
    warm_up(hands[0].handle);
    check_zk(zoo_create(hands[0].handle, "/bench/raw", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
                        NULL, 0));
    sem_init(&fired, 0, 0);
    start_curator();
    open_side(&sides[0]);
    open_side(&sides[1]);
    for (int i = 0; i < 10; i++)
        measure_curator(false);
    for (int i = 0; i < rounds; i++)
        measure_round(hands, sides);
    print("delete + watch by hand", &heard_samples);
    print("delete + watch + children + data by hand", &raw_samples);
    print("hand-over after a stop through the library", &our_samples);
    print("hand-over after a close by Curator's LeaderLatch", &curator_samples);
    print_ratios();
    measure_many(mutexes);
    measure_many_curator(mutexes);
    for (int i = 0; i < 2; i++) {
        simba_contender_close(sides[i].contender);
        simba_client_close(sides[i].client, NULL);
        zookeeper_close(hands[i].handle);
    }
    return 0;
}
