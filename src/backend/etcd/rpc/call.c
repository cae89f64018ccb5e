/*
 * call.c - messages in their frames: a byte for the compression, which is never used, and the
 * length. Memory goes through the library's allocator.
 */
#include "backend/etcd/rpc/call.h"

#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

/* Of a message while it is unpacked: two bytes of a hostile server can become a hundred here. */
static void *allocate(void *data, size_t size)
{
    size_t *left = data;

    if (size > *left)
        return NULL;
    *left -= size;
    return sb_alloc(size);
}

static void release(void *data, void *memory)
{
    (void)data;
    sb_free(memory);
}

bool sb_etcd_call_add(struct sb_etcd_call *call, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    uint8_t *frame;

    if (length > SB_ETCD_UNSENT_MAX || call->out.length > SB_ETCD_UNSENT_MAX - length ||
        !sb_wire_buffer_fit(&call->out, SB_ETCD_FRAME_SIZE + length))
        return false;
    frame = (uint8_t *)call->out.data + call->out.length;
    frame[0] = 0;
    for (int i = 0; i < 4; i++)
        frame[1 + i] = (uint8_t)(length >> (24 - 8 * i));
    protobuf_c_message_pack(message, frame + SB_ETCD_FRAME_SIZE);
    call->out.length += SB_ETCD_FRAME_SIZE + length;
    return true;
}

void *sb_etcd_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t length)
{
    size_t left = SB_ETCD_UNPACKED_MAX;
    ProtobufCAllocator allocator = {allocate, release, &left};

    return protobuf_c_message_unpack(descriptor, &allocator, length, bytes);
}

/* An empty message has a frame, too. */
void *sb_etcd_call_unpack(const struct sb_etcd_call *call,
                          const ProtobufCMessageDescriptor *descriptor)
{
    if (call->in.length < SB_ETCD_FRAME_SIZE)
        return NULL;
    return sb_etcd_unpack(descriptor, call->in.data + SB_ETCD_FRAME_SIZE,
                          call->in.length - SB_ETCD_FRAME_SIZE);
}

void sb_etcd_free_message(void *message)
{
    ProtobufCAllocator allocator = {allocate, release, NULL};

    if (message != NULL)
        protobuf_c_message_free_unpacked(message, &allocator);
}

void sb_etcd_call_clear(struct sb_etcd_call *call)
{
    SB_CHECK(call->back == NULL, "a call that is cleared has ended");
    sb_wire_buffer_free(&call->out);
    sb_wire_buffer_free(&call->in);
    sb_free(call->text);
    call->text = NULL;
    call->done = 0;
    call->stream = 0;
    call->retried = false;
    call->owed = false;
}

void sb_etcd_call_link(struct sb_etcd_call **list, struct sb_etcd_call *call)
{
    SB_CHECK(call->back == NULL, "a call is in one list");
    call->next = *list;
    call->back = list;
    if (call->next != NULL)
        call->next->back = &call->next;
    *list = call;
}

void sb_etcd_call_unlink(struct sb_etcd_call *call)
{
    SB_CHECK(call->back != NULL, "a call is taken out of a list");
    *call->back = call->next;
    if (call->next != NULL)
        call->next->back = call->back;
    call->next = NULL;
    call->back = NULL;
}
