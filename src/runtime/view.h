/*
 * view.h - what a service shows to all threads, without a lock and without a pin: it stands in the
 * slot of its handle.
 */
#ifndef SB_RUNTIME_VIEW_H
#define SB_RUNTIME_VIEW_H

#include "base/handle.h"

enum simba_status sb_view_status(const struct sb_handle_view *view);
int64_t sb_view_deadline_ms(const struct sb_handle_view *view);
bool sb_view_is_owner(const struct sb_handle_view *view);
bool sb_view_is_in_ttl(const struct sb_handle_view *view);
uint64_t sb_view_fence(const struct sb_handle_view *view);
int64_t sb_view_place(const struct sb_handle_view *view);
int64_t sb_view_window_ms(const struct sb_handle_view *view);

/* For public handles: the answer of one that is closed is "no". */
enum simba_status sb_view_status_of(const void *handle);
bool sb_view_is_owner_of(const void *handle);

#endif
