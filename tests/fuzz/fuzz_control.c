/* Control messages between firnd and a worker: decoded messages can be encoded again, and come back
 * the same. The first byte is the position at which the input is cut in two. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "elastic/messages/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct control_message *message)
{
    struct bytes packed = {0}, second = {0};
    struct control_message again = {0};
    bool has_plan = message->type == CONTROL_PREPARE || message->type == CONTROL_SWITCH;
    if ((has_plan && !message->plan) || control_pack(message, &packed) != 0)
        return;
    size_t before = packed.size_bytes;
    struct bytes copy = {0};
    if (bytes_append(&copy, packed.data, packed.size_bytes) == 0) {
        if (control_unpack(&copy, &again, NULL) != 1 || copy.size_bytes != 0 ||
            again.type != message->type)
            abort();
        if (control_pack(&again, &second) == 0 &&
            (second.size_bytes != before || memcmp(second.data, packed.data, before) != 0))
            abort();
        control_message_done(&again);
    }
    bytes_done(&copy);
    bytes_done(&packed);
    bytes_done(&second);
}

static int take_all(struct bytes *stream)
{
    int status;
    do {
        struct control_message message = {0};
        struct error error = {0};
        size_t before = stream->size_bytes;
        status = control_unpack(stream, &message, &error);
        if (status == 1) {
            if (stream->size_bytes >= before)
                abort();
            check(&message);
            control_message_done(&message);
        } else if (status < 0 && error.text[0] == '\0') {
            abort();
        }
    } while (status == 1);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes stream = {0};
    if (size == 0)
        return 0;
    size_t first = data[0] % size;
    if (bytes_append(&stream, data + 1, first) == 0 && take_all(&stream) == 0 &&
        bytes_append(&stream, data + 1 + first, size - 1 - first) == 0)
        (void)take_all(&stream);
    bytes_done(&stream);
    return 0;
}
