/*
 * poison.c - see poison.h.
 *
 * It takes no lock of the pthread library, so that tests can play with those. A fork waits for its
 * own lock: in the child nobody would give it back.
 */
#include "lib/poison.h"

#include <simba/simba.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 20000 /* freed blocks */
#define PATTERN 0xDB
#define LIVE UINT64_C(0x6c697665626c6f63)
#define FREED UINT64_C(0x66726565646d656d)

struct block {
    uint64_t state;
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
};

static struct block *kept[KEPT];
static size_t next;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void enter(void)
{
    while (atomic_flag_test_and_set(&busy))
        sched_yield();
}

static void leave(void)
{
    atomic_flag_clear(&busy);
}

static void fail(const char *what)
{
    fprintf(stderr, "poison: %s\n", what);
    abort();
}

static struct block *block_of(void *memory)
{
    struct block *block = (struct block *)((char *)memory - offsetof(struct block, bytes));

    if (block->state == FREED)
        fail("a block is freed or resized that was freed before");
    if (block->state != LIVE)
        fail("a block is freed or resized that was not allocated here");
    return block;
}

static void let_go(struct block *block)
{
    if (block == NULL)
        return;
    if (block->state != FREED)
        fail("the head of a freed block was written to");
    for (size_t i = 0; i < block->size; i++)
        if (block->bytes[i] != PATTERN)
            fail("a freed block was written to");
    free(block);
}

static void *allocate(void *user, size_t size)
{
    struct block *block = malloc(sizeof *block + size);

    (void)user;
    if (block == NULL)
        return NULL;
    block->state = LIVE;
    block->size = size;
    return block->bytes;
}

static void release(void *user, void *memory)
{
    struct block *block;
    struct block *old;

    (void)user;
    if (memory == NULL)
        return;
    block = block_of(memory);
    block->state = FREED;
    memset(block->bytes, PATTERN, block->size);
    enter();
    old = kept[next];
    kept[next] = block;
    next = (next + 1) % KEPT;
    leave();
    let_go(old);
}

static void *resize(void *user, void *memory, size_t size)
{
    void *fresh = allocate(user, size);
    struct block *block;

    if (memory == NULL || fresh == NULL)
        return fresh;
    block = block_of(memory);
    memcpy(fresh, memory, block->size < size ? block->size : size);
    release(user, memory);
    return fresh;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

void test_poison_install(void)
{
    const struct simba_allocator allocator = {allocate, resize, release, NULL};

    if (SANITIZED)
        return;
    if (simba_set_allocator(&allocator) != SIMBA_OK || pthread_atfork(enter, leave, leave) != 0)
        fail("the allocator cannot be installed");
}

void test_poison_check(void)
{
    enter();
    for (size_t i = 0; i < KEPT; i++) {
        let_go(kept[i]);
        kept[i] = NULL;
    }
    leave();
}
