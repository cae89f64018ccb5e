/*
 * raw_etcd.c - etcd by hand: the store's own transactions, one after the other on a blocking
 * socket.
 */
#include "bench/machine.h"
#include "bench/raw_store.h"

#include "backend/etcd/rpc/message.h"
#include "base/error.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PORT 2379
#define LEASE_S 3600
#define PATIENCE_S 10
#define PREFIX_MAX 256

struct etcd {
    int fd;
    nghttp2_session *session;
    struct sb_etcd_call call;  /* a request and its answer */
    struct sb_etcd_call watch; /* the stream; its answers are looked at as they come */
    struct sb_etcd_txn txn;
    bool answered;
    bool deleted; /* the key that is watched */
    int64_t watch_id;
    int64_t lease;   /* of the key */
    int64_t created; /* its revision */
    char authority[300];
    char base[PREFIX_MAX + 64]; /* all that is measured is below it */
};

/* ---- HTTP/2 ---------------------------------------------------------------------------------- */

/* The server sends events whole, one in a frame. */
static void take_event(struct etcd *raw)
{
    Etcd__WatchAnswer *answer = sb_etcd_call_unpack(&raw->watch, &etcd__watch_answer__descriptor);

    for (size_t i = 0; answer != NULL && i < answer->n_events; i++)
        raw->deleted |= answer->watch_id == raw->watch_id &&
                        answer->events[i]->type == ETCD__EVENT__TYPE__DELETE;
    sb_etcd_free_message(answer);
    raw->watch.in.length = 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t length, void *user)
{
    struct etcd *raw = user;
    struct sb_etcd_call *call = stream == raw->watch.stream ? &raw->watch : &raw->call;

    (void)session;
    (void)flags;
    if (!sb_wire_buffer_add(&call->in, bytes, length))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (call == &raw->watch)
        take_event(raw);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct etcd *raw = user;

    (void)session;
    (void)code;
    raw->answered |= stream == raw->call.stream;
    return 0;
}

static ssize_t give_bytes(nghttp2_session *session, int32_t stream, uint8_t *target, size_t size,
                          uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct sb_etcd_call *call = source->ptr;
    size_t left = call->out.length - call->done;
    size_t count = left < size ? left : size;

    (void)session;
    (void)stream;
    (void)user;
    if (count == 0 && call->streams)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(target, call->out.data + call->done, count);
    call->done += count;
    if (!call->streams && call->done == call->out.length)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

static int fail(struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ESTORE, "etcd by hand: the server does not answer");
}

static bool flush(struct etcd *raw)
{
    const uint8_t *bytes;
    ssize_t count;

    while ((count = nghttp2_session_mem_send(raw->session, &bytes)) > 0)
        if (send(raw->fd, bytes, (size_t)count, MSG_NOSIGNAL) != count)
            return false;
    return count == 0;
}

/* Sends and receives until it is true. */
static int run_until(struct etcd *raw, const bool *done, struct simba_error *error)
{
    uint8_t bytes[16384];

    while (flush(raw) && !*done) {
        ssize_t count = recv(raw->fd, bytes, sizeof bytes, 0);

        if (count <= 0 || nghttp2_session_mem_recv(raw->session, bytes, (size_t)count) != count)
            break;
    }
    return *done ? SIMBA_OK : fail(error);
}

#define HEADER(name, value)                                                                        \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE   \
    }

static int begin(struct etcd *raw, struct sb_etcd_call *call, const char *path,
                 struct simba_error *error)
{
    const nghttp2_data_provider body = {.source = {.ptr = call}, .read_callback = give_bytes};
    const nghttp2_nv headers[] = {
        HEADER(":method", "POST"), HEADER(":scheme", "http"),
        HEADER(":path", path),     HEADER(":authority", raw->authority),
        HEADER("te", "trailers"),  HEADER("content-type", "application/grpc"),
    };

    call->stream = nghttp2_submit_request(raw->session, NULL, headers,
                                          sizeof headers / sizeof headers[0], &body, NULL);
    return call->stream > 0 ? SIMBA_OK : fail(error);
}

/* A request and its answer, which the caller frees. */
static int ask(struct etcd *raw, const char *path, const ProtobufCMessage *message,
               const ProtobufCMessageDescriptor *kind, void *ret_answer, struct simba_error *error)
{
    void *answer;
    int code;

    sb_etcd_call_clear(&raw->call);
    raw->answered = false;
    if (!sb_etcd_call_add(&raw->call, message))
        return sb_error_plain(error, SIMBA_ENOMEM);
    code = begin(raw, &raw->call, path, error);
    if (code == SIMBA_OK)
        code = run_until(raw, &raw->answered, error);
    if (code != SIMBA_OK)
        return code;
    answer = sb_etcd_call_unpack(&raw->call, kind);
    if (answer == NULL)
        return sb_error_set(error, SIMBA_ESTORE, "etcd by hand: %s was refused", path);
    *(void **)ret_answer = answer;
    return SIMBA_OK;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static int connect_to(struct etcd *raw, const char *host, int port, struct simba_error *error)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[16];
    int on = 1;
    int answer;

    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return fail(error);
    raw->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    answer = raw->fd >= 0 ? connect(raw->fd, found->ai_addr, found->ai_addrlen) : -1;
    freeaddrinfo(found);
    if (answer != 0)
        return fail(error);
    setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return SIMBA_OK;
}

static int start_session(struct etcd *raw, struct simba_error *error)
{
    nghttp2_session_callbacks *callbacks;
    int answer;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return sb_error_plain(error, SIMBA_ENOMEM);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    answer = nghttp2_session_client_new(&raw->session, callbacks, raw);
    nghttp2_session_callbacks_del(callbacks);
    if (answer != 0)
        return sb_error_plain(error, SIMBA_ENOMEM);
    nghttp2_submit_settings(raw->session, NGHTTP2_FLAG_NONE, NULL, 0);
    raw->watch.streams = true;
    return begin(raw, &raw->watch, "/etcdserverpb.Watch/Watch", error);
}

static int grant(struct etcd *raw, struct simba_error *error)
{
    Etcd__Grant message = ETCD__GRANT__INIT;
    Etcd__GrantAnswer *answer;
    int code;

    message.ttl = LEASE_S;
    code = ask(raw, "/etcdserverpb.Lease/LeaseGrant", &message.base,
               &etcd__grant_answer__descriptor, &answer, error);
    if (code != SIMBA_OK)
        return code;
    raw->lease = answer->id;
    sb_etcd_free_message(answer);
    return SIMBA_OK;
}

static void close_raw(void *memory)
{
    struct etcd *raw = memory;

    nghttp2_session_del(raw->session);
    sb_etcd_call_clear(&raw->call);
    sb_etcd_call_clear(&raw->watch);
    if (raw->fd >= 0)
        close(raw->fd);
    free(raw);
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    const char *path = simba_url_path(url);
    int port = simba_url_port(url, 0);
    struct etcd *raw;
    int code;

    if (simba_url_host_count(url) != 1 || simba_url_user(url) != NULL ||
        strcmp(simba_url_scheme(url), "etcd") != 0)
        return sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "by hand only one server without credentials and TLS");
    raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    raw->fd = -1;
    path += path[0] == '/';
    snprintf(raw->base, sizeof raw->base, "%.*s%s%.60s", PREFIX_MAX, path,
             path[0] != '\0' ? "/" : "", prefix);
    snprintf(raw->authority, sizeof raw->authority, "%.280s", simba_url_host(url, 0));
    code = connect_to(raw, simba_url_host(url, 0), port > 0 ? port : PORT, error);
    if (code == SIMBA_OK)
        code = start_session(raw, error);
    if (code == SIMBA_OK)
        code = grant(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

/* ---- What is measured ------------------------------------------------------------------------ */

static int ask_txn(struct etcd *raw, Etcd__TxnAnswer **ret_answer, struct simba_error *error)
{
    return ask(raw, "/etcdserverpb.KV/Txn", sb_etcd_txn_end(&raw->txn),
               &etcd__txn_answer__descriptor, ret_answer, error);
}

static void own_key(const struct etcd *raw, char key[SB_ETCD_KEY_SIZE])
{
    sb_etcd_key(key, raw->base, "raw", raw->lease);
}

/* The key before mine: its lease, and 0 where there is none. */
static int make_key(struct etcd *raw, int64_t *ret_before, struct simba_error *error)
{
    const Etcd__RangeAnswer *last;
    Etcd__TxnAnswer *answer;
    char key[SB_ETCD_KEY_SIZE];
    int code;

    own_key(raw, key);
    sb_etcd_txn_begin(&raw->txn);
    sb_etcd_txn_if(&raw->txn, key, 0);
    sb_etcd_branch_put(&raw->txn.then, key, "id", raw->lease);
    sb_etcd_range_first(sb_etcd_branch_range(&raw->txn.then), raw->base, "raw");
    sb_etcd_range_last(sb_etcd_branch_range(&raw->txn.then), raw->base, "raw", 0, 2);
    code = ask_txn(raw, &answer, error);
    if (code != SIMBA_OK)
        return code;
    last = sb_etcd_txn_range(answer, 2);
    raw->created = answer->header->revision;
    *ret_before = last != NULL && last->n_kvs > 1 ? last->kvs[1]->lease : 0;
    sb_etcd_free_message(answer);
    return SIMBA_OK;
}

static int join(void *memory, struct simba_error *error)
{
    int64_t before;

    return make_key(memory, &before, error);
}

static int leave(void *memory, struct simba_error *error)
{
    struct etcd *raw = memory;
    Etcd__TxnAnswer *answer;
    char key[SB_ETCD_KEY_SIZE];
    int code;

    own_key(raw, key);
    sb_etcd_txn_begin(&raw->txn);
    sb_etcd_txn_if(&raw->txn, key, raw->created);
    sb_etcd_branch_remove(&raw->txn.then, key);
    code = ask_txn(raw, &answer, error);
    if (code == SIMBA_OK)
        sb_etcd_free_message(answer);
    return code;
}

static int cycle(void *memory, struct simba_error *error)
{
    int code = join(memory, error);

    return code == SIMBA_OK ? leave(memory, error) : code;
}

/* The one of the last hand-over ends. */
static bool add_watch(struct etcd *raw, const char *key)
{
    Etcd__WatchAsk message = ETCD__WATCH_ASK__INIT;
    Etcd__WatchCancel cancel = ETCD__WATCH_CANCEL__INIT;
    Etcd__WatchCreate create = ETCD__WATCH_CREATE__INIT;

    raw->watch.out.length = raw->watch.done = 0;
    message.ask_case = ETCD__WATCH_ASK__ASK_CANCEL;
    message.cancel = &cancel;
    cancel.watch_id = raw->watch_id;
    if (raw->watch_id > 0 && !sb_etcd_call_add(&raw->watch, &message.base))
        return false;
    message.ask_case = ETCD__WATCH_ASK__ASK_CREATE;
    message.create = &create;
    create.watch_id = ++raw->watch_id;
    create.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)key};
    create.start_revision = raw->created + 1;
    raw->deleted = false;
    return sb_etcd_call_add(&raw->watch, &message.base);
}

static int join_and_watch(void *memory, struct simba_error *error)
{
    struct etcd *raw = memory;
    char key[SB_ETCD_KEY_SIZE];
    int64_t before = 0;
    int code = make_key(raw, &before, error);

    if (code != SIMBA_OK)
        return code;
    sb_etcd_key(key, raw->base, "raw", before);
    if (before == 0 || !add_watch(raw, key))
        return fail(error);
    nghttp2_session_resume_data(raw->session, raw->watch.stream);
    return flush(raw) ? SIMBA_OK : fail(error);
}

/* The delete is heard, and the first key is read. */
static int take(void *memory, struct simba_error *error)
{
    struct etcd *raw = memory;
    struct sb_etcd_range range;
    Etcd__RangeAnswer *answer;
    int code = run_until(raw, &raw->deleted, error);

    if (code != SIMBA_OK)
        return code;
    sb_etcd_range_first(&range, raw->base, "raw");
    code = ask(raw, "/etcdserverpb.KV/Range", &range.message.base, &etcd__range_answer__descriptor,
               &answer, error);
    if (code == SIMBA_OK)
        sb_etcd_free_message(answer);
    return code;
}

/* ---- The end --------------------------------------------------------------------------------- */

static int forget(void *memory, struct simba_error *error)
{
    struct etcd *raw = memory;
    Etcd__Delete message = ETCD__DELETE__INIT;
    Etcd__DeleteAnswer *answer;
    char end[sizeof raw->base];
    size_t length = strlen(raw->base);
    int code;

    memcpy(end, raw->base, sizeof end);
    end[length - 1]++;
    message.key = (ProtobufCBinaryData){length, (uint8_t *)raw->base};
    message.range_end = (ProtobufCBinaryData){length, (uint8_t *)end};
    code = ask(raw, "/etcdserverpb.KV/DeleteRange", &message.base, &etcd__delete_answer__descriptor,
               &answer, error);
    if (code == SIMBA_OK)
        sb_etcd_free_message(answer);
    return code;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "the same two transactions by hand",
     .handover_label = "delete heard + read",
     .cycle = cycle,
     .owner = {.own = join, .release = leave},
     .waiter = {.join = join_and_watch, .take = take, .leave = leave}},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_etcd = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .forget = forget,
};
