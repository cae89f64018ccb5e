/*
 * server.c - a private ZooKeeper server.
 */
#include "server.h"

#include "lib/port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PACKET_MAX 1048575 /* the servers' own default */
#define PATIENCE_MS 60000  /* for a JVM on a busy machine */

/* ---- Files ----------------------------------------------------------------------------------- */

static FILE *create_file(const struct server *server, const char *name)
{
    char path[TEST_PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    return file;
}

static void create_data(const struct server *server)
{
    char path[TEST_PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/data", server->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    if (server->number == 0)
        return;
    file = create_file(server, "data/myid");
    fprintf(file, "%d\n", server->number);
    assert_int_equal(fclose(file), 0);
}

/* Returns the file, for lines that follow. */
static FILE *create_configuration(const struct server *server)
{
    FILE *file = create_file(server, "zoo.cfg");

    fprintf(file,
            "tickTime=%d\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
            "initLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\n",
            server->tick_ms > 0 ? server->tick_ms : SERVER_TICK_MS, server->folder, server->port);
    return file;
}

/* ---- The process ----------------------------------------------------------------------------- */

static void run(const struct server *server)
{
    char configuration[TEST_PATH_MAX + 16];
    char packet_max[64];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *arguments[] = {
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.forceSync=no",
        packet_max,
        "-cp",
        "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        configuration,
        NULL,
    };

    snprintf(configuration, sizeof configuration, "%s/zoo.cfg", server->folder);
    snprintf(packet_max, sizeof packet_max, "-Djute.maxbuffer=%d",
             server->packet_max > 0 ? server->packet_max : PACKET_MAX);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    execvp(arguments[0], (char **)(uintptr_t)arguments);
    _exit(121);
}

static void launch(struct server *server)
{
    server->pid = fork();
    if (server->pid == 0)
        run(server);
    assert_true(server->pid > 0);
}

/* "imok" comes before it takes sessions; a mode is told only by one that serves. */
static bool serves(void *user)
{
    return strstr(server_command(user, "srvr"), "Mode: ") != NULL;
}

static void await(struct server *server)
{
    if (!test_wait_within(PATIENCE_MS, serves, server))
        fail_msg("ZooKeeper on port %d does not answer", server->port);
}

void server_start_narrow(struct server *server, int packet_max)
{
    signal(SIGPIPE, SIG_IGN);
    memset(server, 0, sizeof *server);
    server->packet_max = packet_max;
    server->port = test_free_port();
    test_folder_create(server->folder);
    create_data(server);
    assert_int_equal(fclose(create_configuration(server)), 0);
    launch(server);
    await(server);
}

void server_start(struct server *server)
{
    server_start_narrow(server, 0);
}

void server_start_again(struct server *server)
{
    launch(server);
    await(server);
}

void server_kill(struct server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void server_pause(struct server *server)
{
    int status = 0;

    kill(server->pid, SIGSTOP);
    assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
    assert_true(WIFSTOPPED(status));
}

void server_go_on(struct server *server)
{
    kill(server->pid, SIGCONT);
}

void server_wipe(struct server *server)
{
    char path[TEST_PATH_MAX + 32];

    assert_int_equal(server->pid, 0);
    snprintf(path, sizeof path, "%s/data", server->folder);
    test_folder_remove(path);
    create_data(server);
}

void server_stop(struct server *server)
{
    server_kill(server);
    if (server->folder[0] != '\0')
        test_folder_remove(server->folder);
    server->folder[0] = '\0';
}

/* ---- Asking ---------------------------------------------------------------------------------- */

const char *server_command(const struct server *server, const char *command)
{
    static char text[65536];
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct timeval patience = {5, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t length = 0;
    ssize_t got = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)server->port);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && write(fd, command, 4) == 4)
        while (got > 0 && length < sizeof text - 1) {
            got = read(fd, text + length, sizeof text - 1 - length);
            length += got > 0 ? (size_t)got : 0;
        }
    text[length] = '\0';
    close(fd);
    return text;
}

struct watch_count {
    const struct server *server;
    long count;
};

static bool tells_watches(void *user)
{
    static const char name[] = "zk_watch_count"; /* "wchs" knows nothing of watches on children */
    struct watch_count *asked = user;
    const char *text = strstr(server_command(asked->server, "mntr"), name);

    if (text != NULL)
        asked->count = atol(text + sizeof name);
    return text != NULL;
}

/* ZooKeeper 3.9 sometimes resets the connection before the client has read the whole answer. */
long server_watches(const struct server *server)
{
    struct watch_count asked = {.server = server};

    if (!test_wait(tells_watches, &asked))
        fail_msg("ZooKeeper on port %d does not count its watches", server->port);
    return asked.count;
}

static char *next_url(void)
{
    static char urls[4][1024];
    static unsigned turn;

    return urls[turn++ % 4];
}

const char *server_url(const struct server *server, const char *rest)
{
    char *url = next_url();

    snprintf(url, 1024, "zookeeper://127.0.0.1:%d%s", server->port, rest);
    return url;
}

/* ---- Ensembles ------------------------------------------------------------------------------- */

struct ports {
    int quorum;
    int election;
};

static void configure_ensemble(struct server servers[ENSEMBLE_SIZE], int (*make_link)(int port))
{
    struct ports ports[ENSEMBLE_SIZE];
    int leader = ENSEMBLE_SIZE - 1;
    int linked;

    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        ports[i] = (struct ports){test_free_port(), test_free_port()};
    linked = make_link != NULL ? make_link(ports[leader].quorum) : ports[leader].quorum;
    for (int i = 0; i < ENSEMBLE_SIZE; i++) {
        FILE *file = create_configuration(&servers[i]);

        for (int j = 0; j < ENSEMBLE_SIZE; j++)
            fprintf(file, "server.%d=127.0.0.1:%d:%d\n", j + 1,
                    i == 0 && j == leader ? linked : ports[j].quorum, ports[j].election);
        assert_int_equal(fclose(file), 0);
    }
}

static void create_ensemble(struct server servers[ENSEMBLE_SIZE], int tick_ms,
                            int (*make_link)(int port))
{
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < ENSEMBLE_SIZE; i++) {
        memset(&servers[i], 0, sizeof servers[i]);
        servers[i].port = test_free_port();
        servers[i].tick_ms = tick_ms;
        servers[i].number = i + 1;
        test_folder_create(servers[i].folder);
        create_data(&servers[i]);
    }
    configure_ensemble(servers, make_link);
}

void ensemble_start(struct server servers[ENSEMBLE_SIZE])
{
    create_ensemble(servers, SERVER_TICK_MS, NULL);
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        launch(&servers[i]);
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        await(&servers[i]);
}

/* Of servers that know equally much the one with the highest number leads, if it is there when the
 * others choose. */
void ensemble_start_linked(struct server servers[ENSEMBLE_SIZE], int tick_ms,
                           int (*make_link)(int port))
{
    create_ensemble(servers, tick_ms, make_link);
    for (int i = ENSEMBLE_SIZE - 1; i > 0; i--)
        launch(&servers[i]);
    for (int i = ENSEMBLE_SIZE - 1; i > 0; i--)
        await(&servers[i]);
    launch(&servers[0]);
    await(&servers[0]);
    assert_ptr_equal(ensemble_leader(servers), &servers[ENSEMBLE_SIZE - 1]);
}

void ensemble_start_empty(struct server servers[ENSEMBLE_SIZE])
{
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        server_kill(&servers[i]);
    for (int i = 0; i < ENSEMBLE_SIZE; i++) {
        server_wipe(&servers[i]);
        launch(&servers[i]);
    }
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        await(&servers[i]);
}

void ensemble_stop(struct server servers[ENSEMBLE_SIZE])
{
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        server_stop(&servers[i]);
}

struct server *ensemble_leader(struct server servers[ENSEMBLE_SIZE])
{
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        if (servers[i].pid > 0 &&
            strstr(server_command(&servers[i], "srvr"), "Mode: leader") != NULL)
            return &servers[i];
    return NULL;
}

const char *ensemble_url(const struct server servers[ENSEMBLE_SIZE], const char *rest)
{
    char *url = next_url();

    snprintf(url, 1024, "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d%s", servers[0].port,
             servers[1].port, servers[2].port, rest);
    return url;
}
