/*
 * nodes.c - fuzzes what ZooKeeper tells: the names of nodes, which decide who is the first, and
 * their data. The first byte of the input says how the rest is taken.
 */
#include "fuzz.h"

#include "backend/zookeeper/names.h"

#include <stdlib.h>
#include <string.h>

#define CHILDREN_MAX 64
#define UUID "0f0e0d0c-0b0a-4908-8706-050403020100"

/* One name per line. */
static size_t split(char *text, const char *children[CHILDREN_MAX])
{
    char *rest = NULL;
    size_t count = 0;

    for (char *name = strtok_r(text, "\n", &rest); name != NULL && count < CHILDREN_MAX;
         name = strtok_r(NULL, "\n", &rest))
        children[count++] = name;
    return count;
}

static void demand_first(const char *const *children, size_t count, const struct sb_zk_ranks *ranks)
{
    for (size_t i = 0; i < count; i++)
        fuzz_demand(sb_zk_compare(ranks->leader, children[i]) <= 0, "nobody is before the leader");
    fuzz_demand(!ranks->found ||
                    (ranks->before[0] == '\0') == (strcmp(ranks->mine, ranks->leader) == 0),
                "who has nobody before it leads");
    fuzz_demand(!ranks->found || ranks->before[0] == '\0' ||
                    sb_zk_compare(ranks->before, ranks->mine) < 0,
                "the one before mine is before mine");
}

static void try_ranks(char *text)
{
    const char *children[CHILDREN_MAX];
    size_t count = split(text, children);
    struct sb_zk_ranks ranks;

    sb_zk_rank(children, count, UUID, &ranks);
    fuzz_demand(ranks.count == count, "all are counted");
    if (count > 0 && !ranks.too_long)
        demand_first(children, count, &ranks);
}

static void try_path(const char *path)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    char again[SB_ZK_PATH_SIZE];
    const char *node;

    if (!sb_zk_split_path(path, "/simba", mutex, &node))
        return;
    fuzz_demand(strchr(mutex, '/') == NULL, "a mutex is one node");
    if (node[0] != '\0' && sb_zk_node_path(again, "/simba", mutex, node))
        fuzz_demand(strcmp(again, path) == 0, "a path that is taken apart can be put together");
}

static void try_id(const uint8_t *data, size_t size)
{
    char id[SIMBA_ID_MAX + 1];

    sb_zk_read_id((const char *)data, size, "node", id);
    fuzz_demand(strlen(id) <= SIMBA_ID_MAX, "an id is not too long");
    for (const char *c = id; *c != '\0'; c++)
        fuzz_demand((unsigned char)*c >= 0x20 && *c != 0x7f, "an id has no control character");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    text = fuzz_text(data + 1, size - 1);
    if (data[0] == 'r')
        try_ranks(text);
    else if (data[0] == 'p')
        try_path(text);
    else
        try_id(data + 1, size - 1);
    free(text);
    return 0;
}
