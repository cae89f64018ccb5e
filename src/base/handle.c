/*
 * handle.c - the slots of the public handles. Owns their memory and their generations; must not
 * know what the objects are.
 */
#include "base/handle.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/thread.h"

#include <pthread.h>
#include <stddef.h>

#define CHUNK 256U /* slots that are allocated at once */
#define INDEX_BITS 20
#define CHUNKS_MAX (SB_HANDLES_MAX / CHUNK)
#define GENERATION_BITS (UINTPTR_MAX > UINT32_MAX ? 32 : 12)
#define GENERATION_MAX (((uint64_t)1 << GENERATION_BITS) - 1)

_Static_assert(SB_HANDLES_MAX == 1U << INDEX_BITS, "each index fits into a value");

/* The parts of the word of a slot. */
#define GENERATION ((uint64_t)1 << 32)
#define CLOSING ((uint64_t)1 << 31)
#define PINS (CLOSING - 1)

/* Most programs never need a second chunk. */
static struct sb_handle first[CHUNK];
static _Atomic(struct sb_handle *) chunks[CHUNKS_MAX] = {first};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct sb_fork_guard guard = {.lock = &lock};
static struct sb_handle *free_slots; /* linked by their objects */
static uint32_t used;                /* slots that were in use at least once */

static uint64_t generation_of(uint64_t word)
{
    return word >> 32;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static struct sb_handle *slot_at(uint32_t index)
{
    struct sb_handle *chunk = atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire);

    return chunk != NULL ? &chunk[index % CHUNK] : NULL;
}

/* A slot that was never used, with the lock held. NULL: there is none, or no memory for one. */
static struct sb_handle *new_slot(struct simba_error *error)
{
    struct sb_handle *slot;

    if (used == SB_HANDLES_MAX) {
        sb_error_set(error, SIMBA_ENOMEM,
                     "this process has %u handles open, and there can be no more: close some",
                     SB_HANDLES_MAX);
        return NULL;
    }
    slot = slot_at(used);
    if (slot == NULL) {
        slot = sb_alloc_zero(CHUNK * sizeof *slot);
        if (slot == NULL) {
            sb_error_plain(error, SIMBA_ENOMEM);
            return NULL;
        }
        atomic_store_explicit(&chunks[used / CHUNK], slot, memory_order_release);
    }
    slot->view.index = used++;
    atomic_init(&slot->word, GENERATION); /* so that no value is NULL */
    return slot;
}

static struct sb_handle *take_slot(struct simba_error *error)
{
    struct sb_handle *slot;

    sb_fork_guard(&guard);
    pthread_mutex_lock(&lock);
    slot = free_slots;
    if (slot != NULL)
        free_slots = slot->object;
    else
        slot = new_slot(error);
    pthread_mutex_unlock(&lock);
    return slot;
}

static void clear_view(struct sb_handle_view *view)
{
    atomic_store_explicit(&view->belief_ms, 0, memory_order_release);
    atomic_store_explicit(&view->ttl_ms, 0, memory_order_release);
    atomic_store_explicit(&view->fence, 0, memory_order_release);
    atomic_store_explicit(&view->place, 0, memory_order_release);
    atomic_store_explicit(&view->status, SIMBA_INITIAL, memory_order_release);
    atomic_store_explicit(&view->forks, sb_fork_count(), memory_order_release);
}

struct sb_handle *sb_handle_create(void *object, struct simba_error *error)
{
    struct sb_handle *slot = take_slot(error);

    if (slot == NULL)
        return NULL;
    slot->object = object;
    clear_view(&slot->view);
    atomic_fetch_add_explicit(&slot->word, 1, memory_order_release);
    return slot;
}

/* A slot whose generations are used up is left alone: no handle ever means another object. */
void sb_handle_free(struct sb_handle *slot)
{
    uint64_t word = atomic_load(&slot->word);
    uint64_t generation = generation_of(word) + 1;

    SB_CHECK((word & PINS) <= 1, "a handle is freed when nobody uses it");
    atomic_store(&slot->word, generation * GENERATION);
    if (generation + 1 >= GENERATION_MAX)
        return;
    pthread_mutex_lock(&lock);
    slot->object = free_slots;
    free_slots = slot;
    pthread_mutex_unlock(&lock);
}

bool sb_handle_retire(struct sb_handle *slot)
{
    uint64_t before = atomic_fetch_add(&slot->word, GENERATION - 1);

    SB_CHECK((before & PINS) > 0, "a handle is retired once");
    return (before & PINS) == 1;
}

bool sb_handle_begin_close(struct sb_handle *slot)
{
    uint64_t before = atomic_fetch_or(&slot->word, CLOSING);

    SB_CHECK((before & PINS) > 0, "a close has a pin");
    return (before & CLOSING) == 0;
}

void sb_handle_reopen(struct sb_handle *slot)
{
    uint64_t before = atomic_fetch_and(&slot->word, ~CLOSING);

    SB_CHECK((before & CLOSING) != 0, "what is opened again was about to close");
}

unsigned sb_handle_pins(const struct sb_handle *slot)
{
    return (unsigned)(atomic_load(&slot->word) & PINS);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static uint64_t value_of(const struct sb_handle *slot)
{
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

    return generation_of(word) << INDEX_BITS | slot->view.index;
}

void *sb_handle_value(const struct sb_handle *slot)
{
    return (void *)(uintptr_t)value_of(slot);
}

static struct sb_handle *slot_of(const void *value)
{
    return slot_at((uintptr_t)value & ((1U << INDEX_BITS) - 1));
}

static bool is_of(const void *value, uint64_t word)
{
    return generation_of(word) == (uint64_t)(uintptr_t)value >> INDEX_BITS;
}

const struct sb_handle_view *sb_handle_look(const void *value)
{
    const struct sb_handle *slot = slot_of(value);

    if (slot == NULL || !is_of(value, atomic_load_explicit(&slot->word, memory_order_acquire)))
        return NULL;
    return &slot->view;
}

bool sb_handle_is_valid(const void *value)
{
    return sb_handle_look(value) != NULL;
}

/* ---- Pins ------------------------------------------------------------------------------------ */

/* NULL where the handle is closed, or has one of `refused`. */
static void *pin(const void *value, uint64_t refused)
{
    struct sb_handle *slot = slot_of(value);
    uint64_t word;

    if (slot == NULL)
        return NULL;
    word = atomic_load_explicit(&slot->word, memory_order_acquire);
    do {
        if (!is_of(value, word) || (word & refused) != 0 || (word & PINS) == 0)
            return NULL;
    } while (!atomic_compare_exchange_weak(&slot->word, &word, word + 1));
    return slot->object;
}

static int pin_for(const void *value, uint64_t refused, const char *call, const char *what,
                   void **ret_object, struct simba_error *error)
{
    void *object;

    if (value == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs %s", call, what);
    object = pin(value, refused);
    if (object == NULL)
        return sb_error_set(error, SIMBA_ECLOSED, "%s was given %s that is closed", call, what);
    *ret_object = object;
    return SIMBA_OK;
}

int sb_handle_use(const void *value, const char *call, const char *what, void **ret_object,
                  struct simba_error *error)
{
    return pin_for(value, CLOSING, call, what, ret_object, error);
}

int sb_handle_ask_code(const void *value, const char *call, const char *what, void **ret_object,
                       struct simba_error *error)
{
    return pin_for(value, 0, call, what, ret_object, error);
}

void *sb_handle_ask(const void *value)
{
    return pin(value, 0);
}

bool sb_handle_unpin(struct sb_handle *slot)
{
    uint64_t before = atomic_fetch_sub(&slot->word, 1);

    SB_CHECK((before & PINS) > 0, "a pin is taken before it is given back");
    return (before & PINS) == 1;
}
