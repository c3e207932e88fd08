/* Run fio as the yardstick of a file system: the same files, sizes of writes and depth. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fio_request {
    const char *folder;
    const char *engine;  /* "io_uring", "psync" */
    const size_t *sizes; /* bytes of every file, one after the other */
    unsigned file_count;
    unsigned depth;
    size_t block_bytes;
};

/**
 * fio_write() - write the files anew with O_DIRECT, flush included; they stay for fio_read()
 * Return: the seconds that fio reports; negative, with a line on the terminal: fio is not installed
 */
double fio_write(const struct fio_request *request);
/** fio_read() - read the files of fio_write() with O_DIRECT */
double fio_read(const struct fio_request *request);
/** fio_remove() - remove the files of fio_write() */
void fio_remove(const struct fio_request *request);
