/*
 * Choose the backend by trying io_uring. Containers often forbid it by seccomp (EPERM) or by the
 * sysctl kernel.io_uring_disabled; old kernels lack it, or lack plain reads and writes. There is no
 * other way to find out.
 */
#include <errno.h>
#include <liburing.h>

#include "checkpoint/io/io.h"

static const char *refusal(int code)
{
    switch (code) {
    case -EPERM:
    case -EACCES:
        return "the kernel or a seccomp filter forbids io_uring; pread and pwrite in threads instead";
    case -ENOSYS:
        return "the kernel has no io_uring; pread and pwrite in threads instead";
    case -ENOMEM:
        return "no memory may be locked for io_uring; pread and pwrite in threads instead";
    default:
        return "io_uring cannot be set up; pread and pwrite in threads instead";
    }
}

static bool requests_are_supported(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe)
        return false;
    static const int needed[] = {IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_READ,
                                 IORING_OP_READ_FIXED};
    bool supported = true;
    for (size_t i = 0; i < ARRAY_COUNT(needed); i++)
        supported = supported && io_uring_opcode_supported(probe, needed[i]);
    io_uring_free_probe(probe);
    return supported;
}

const struct io *io_probe(const char **ret_why)
{
    struct io_uring ring;
    int status = io_uring_queue_init(2, &ring, 0);
    if (status < 0) {
        *ret_why = refusal(status);
        return io_threads_table();
    }
    bool supported = requests_are_supported(&ring);
    io_uring_queue_exit(&ring);
    *ret_why =
        supported
            ? "the kernel allows io_uring"
            : "the kernel's io_uring cannot read and write; pread and pwrite in threads instead";
    return supported ? io_uring_table() : io_threads_table();
}
