/*
 * inspect.c - INSPECT: asks the servers, node by node, for INFO and for the setting `save`, and
 * says what that means to leases. CONFIG may be forbidden; then the setting is not known.
 */
#include "backend/redis/ops/ops.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/findings.h"
#include "base/text.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

struct inspection {
    struct sb_redis_command command; /* first */
    simba_backend *store;
    struct simba_request *request;
    struct sb_redis_node *node; /* that is asked */
    struct simba_request turn;  /* on that node */
    int64_t deadline_ms;
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct sb_findings findings;
};

static void ask_node(struct inspection *i);

/* ---- What INFO says -------------------------------------------------------------------------- */

/* What stands behind "\nNAME:" in the text, up to the end of the line; "" where nothing does. */
static void read_field(const char *info, const char *name, char ret_value[SB_REDIS_FIELD_MAX])
{
    const char *found = strstr(info, name);
    size_t length = found != NULL ? strcspn(found + strlen(name), "\r\n") : 0;

    ret_value[0] = '\0';
    if (length > 0)
        sb_text_printable(ret_value, SB_REDIS_FIELD_MAX, found + strlen(name), length);
}

static unsigned long read_number(const char *info, const char *name)
{
    char value[SB_REDIS_FIELD_MAX];

    read_field(info, name, value);
    return strtoul(value, NULL, 10);
}

bool sb_redis_info_evicts(const char *info, char ret_policy[SB_REDIS_FIELD_MAX])
{
    char limit[SB_REDIS_FIELD_MAX];

    read_field(info, "\nmaxmemory:", limit);
    read_field(info, "\nmaxmemory_policy:", ret_policy);
    return limit[0] != '\0' && strcmp(limit, "0") != 0 && ret_policy[0] != '\0' &&
           strcmp(ret_policy, "noeviction") != 0;
}

static void add_server(struct inspection *i, const char *info)
{
    char version[SB_REDIS_FIELD_MAX];
    char role[SB_REDIS_FIELD_MAX];

    read_field(info, "\nvalkey_version:", version);
    if (version[0] == '\0')
        read_field(info, "\nredis_version:", version);
    read_field(info, "\nrole:", role);
    if (strcmp(role, "slave") == 0)
        sb_findings_add(&i->findings, SIMBA_SEVERITY_PROBLEM, "server",
                        "name the master in the URL, or use redis+sentinel://",
                        "%.80s, version %s, is a replica: it is read-only and grants no lease",
                        i->place, version);
    else
        sb_findings_add(&i->findings, SIMBA_SEVERITY_OK, "server", NULL,
                        "%.80s, version %s, a master", i->place, version);
}

static void add_eviction(struct inspection *i, const char *info)
{
    char policy[SB_REDIS_FIELD_MAX];

    if (sb_redis_info_evicts(info, policy))
        sb_findings_add(&i->findings, SIMBA_SEVERITY_PROBLEM, "eviction",
                        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
                        "maxmemory-policy is %s: when memory is short the server drops leases, and "
                        "a mutex gets two owners",
                        policy);
    else
        sb_findings_add(&i->findings, SIMBA_SEVERITY_OK, "eviction", NULL,
                        strcmp(policy, "noeviction") == 0 ? "off (noeviction)"
                                                          : "off: the server has no memory limit");
}

static void add_replication(struct inspection *i, const char *info)
{
    unsigned long replicas = read_number(info, "\nconnected_slaves:");
    long long wanted = (long long)i->store->options.wait_replicas;

    if (wanted > 0 && replicas < (unsigned long)wanted)
        sb_findings_add(&i->findings, SIMBA_SEVERITY_PROBLEM, "replication",
                        "connect more replicas, or lower wait-replicas",
                        "wait-replicas is %lld, and %lu are connected: no lease is granted", wanted,
                        replicas);
    else
        sb_findings_add_replicas(&i->findings, replicas, wanted > 0,
                                 "add wait-replicas=1 to the URL, or check fencing tokens");
}

/* ---- Persistence ----------------------------------------------------------------------------- */

static void add_persistence(struct inspection *i, const char *save)
{
    static const char advice[] = "CONFIG SET appendonly yes, and the same in redis.conf; or let a "
                                 "restarted server wait for a lease before it serves";

    if (save == NULL)
        sb_findings_add(&i->findings, SIMBA_SEVERITY_WARNING, "persistence", advice,
                        "appendonly is no; whether it saves snapshots is not known: this user may "
                        "not run CONFIG GET");
    else if (save[0] != '\0')
        sb_findings_add(&i->findings, SIMBA_SEVERITY_WARNING, "persistence", advice,
                        "snapshots only: a crash forgets the leases since the last one, and a "
                        "mutex can get two owners");
    else
        sb_findings_add(&i->findings, SIMBA_SEVERITY_PROBLEM, "persistence", advice,
                        "none: a restart of the server forgets all leases, and a mutex can get two "
                        "owners");
}

/* ---- The way through the nodes --------------------------------------------------------------- */

static void finish(struct inspection *i, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    const struct simba_backend_host *host = i->store->host;

    reply.findings = i->findings.list;
    reply.findings_count = i->findings.count;
    if (error != NULL) {
        reply.code = error->code;
        reply.error = error;
    }
    host->reply(host, i->request, &reply);
    sb_free(i);
}

static void go_on(struct inspection *i)
{
    i->node = i->node->next;
    if (i->node != NULL)
        ask_node(i);
    else
        finish(i, NULL);
}

static void
send_command(struct inspection *i, const struct sb_redis_argument *arguments, size_t count,
             void (*answered)(struct sb_redis_command *, const struct sb_redis_answer *))
{
    struct simba_error error;

    i->command = (struct sb_redis_command){.answered = answered, .deadline_ms = i->deadline_ms};
    if (sb_redis_reconnecting_send(i->node->commands, &i->command, arguments, count, &error) !=
        SIMBA_OK)
        finish(i, &error);
    else
        sb_redis_reconnecting_flush(i->node->commands);
}

static void on_save(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct inspection *i = (struct inspection *)command;
    const redisReply *reply = answer->reply;
    bool told = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[1]->type == REDIS_REPLY_STRING;

    add_persistence(i, told ? reply->element[1]->str : NULL);
    go_on(i);
}

static void on_info(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    static const struct sb_redis_argument arguments[] = {{"CONFIG", 6}, {"GET", 3}, {"save", 4}};
    struct inspection *i = (struct inspection *)command;
    const redisReply *reply = answer->reply;

    if (reply == NULL) {
        finish(i, answer->error);
        return;
    }
    sb_wire_place_text(answer->place, i->place);
    if (reply->type != REDIS_REPLY_STRING) {
        sb_findings_add(&i->findings, SIMBA_SEVERITY_WARNING, "server",
                        "give the user of simba the right +info",
                        "its settings are not known: this user may not run INFO");
        go_on(i);
        return;
    }
    add_server(i, reply->str);
    add_eviction(i, reply->str);
    add_replication(i, reply->str);
    if (read_number(reply->str, "\naof_enabled:") == 0) {
        send_command(i, arguments, 3, on_save);
        return;
    }
    sb_findings_add(&i->findings, SIMBA_SEVERITY_OK, "persistence", NULL, "appendonly is yes");
    go_on(i);
}

static void on_turn(simba_backend *store, struct simba_request *request,
                    const struct sb_redis_record *record, const struct simba_error *error)
{
    static const struct sb_redis_argument arguments[] = {{"INFO", 4}};
    struct inspection *i = request->backend_data;

    (void)store;
    (void)record;
    if (error != NULL)
        finish(i, error);
    else
        send_command(i, arguments, 1, on_info);
}

static void ask_node(struct inspection *i)
{
    i->turn = (struct simba_request){
        .op = SIMBA_OP_LIST, /* its turn is that of all that is not about one mutex */
        .timeout_ms = sb_time_left(i->deadline_ms, simba_now_ms()),
        .backend_data = i,
    };
    sb_redis_request_await_turn(i->node, i->store, &i->turn, on_turn);
}

void sb_redis_inspect_start(simba_backend *store, struct simba_request *request)
{
    const struct sb_redis_options *o = &store->options;
    struct inspection *i = sb_alloc_zero(sizeof *i);
    struct simba_error error;

    if (i == NULL || store->nodes.first == NULL) {
        sb_free(i);
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_redis_request_reply(store, request, NULL, &error);
        return;
    }
    i->store = store;
    i->request = request;
    i->node = store->nodes.first;
    i->deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    sb_findings_add_tls(&i->findings,
                        !o->tls           ? SB_TLS_NONE
                        : o->trust.verify ? SB_TLS_VERIFIED
                                          : SB_TLS_UNVERIFIED,
                        o->places[0].host, "write rediss:// without tls-verify=no");
    ask_node(i);
}
