/*
 * view.c - answers from what a service shows. Owns nothing.
 */
#include "runtime/view.h"

#include "base/thread.h"

/* In a child nothing runs. */
enum simba_status sb_view_status(const struct sb_handle_view *view)
{
    if (atomic_load_explicit(&view->forks, memory_order_acquire) != sb_fork_count())
        return SIMBA_INITIAL;
    return (enum simba_status)atomic_load_explicit(&view->status, memory_order_acquire);
}

/* The status is asked too, because a stop ends the belief before the loop has heard of it. */
int64_t sb_view_deadline_ms(const struct sb_handle_view *view)
{
    if (sb_view_status(view) != SIMBA_RUNNING)
        return 0;
    return atomic_load_explicit(&view->belief_ms, memory_order_acquire);
}

bool sb_view_is_owner(const struct sb_handle_view *view)
{
    int64_t until_ms = sb_view_deadline_ms(view);

    return until_ms > 0 && simba_now_ms() < until_ms;
}

bool sb_view_is_in_ttl(const struct sb_handle_view *view)
{
    return sb_view_is_owner(view) &&
           simba_now_ms() < atomic_load_explicit(&view->ttl_ms, memory_order_acquire);
}

int64_t sb_view_place(const struct sb_handle_view *view)
{
    return sb_view_is_owner(view) ? 0 : atomic_load_explicit(&view->place, memory_order_acquire);
}

/* Between the two loads a term may end and another begin; then it is asked again. */
uint64_t sb_view_fence(const struct sb_handle_view *view)
{
    uint64_t fence = atomic_load_explicit(&view->fence, memory_order_acquire);

    for (;;) {
        bool owner = sb_view_is_owner(view);
        uint64_t again = atomic_load_explicit(&view->fence, memory_order_acquire);

        if (fence == again)
            return owner ? fence : 0;
        fence = again;
    }
}

int64_t sb_view_window_ms(const struct sb_handle_view *view)
{
    int64_t until_ms = sb_view_deadline_ms(view);

    return until_ms > 0 ? until_ms - atomic_load_explicit(&view->ttl_ms, memory_order_acquire) : 0;
}

bool sb_view_is_owner_of(const void *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);

    return view != NULL && sb_view_is_owner(view) && sb_handle_is_valid(handle);
}

enum simba_status sb_view_status_of(const void *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);
    enum simba_status status = view != NULL ? sb_view_status(view) : SIMBA_INITIAL;

    return sb_handle_is_valid(handle) ? status : SIMBA_INITIAL;
}
