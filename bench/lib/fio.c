#include "bench/lib/fio.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/lib/measure.h"

#define COMMAND_SIZE 4096

static void file_of(const struct fio_request *request, unsigned index, char ret_path[1024])
{
    snprintf(ret_path, 1024, "%s/fio-%u.bin", request->folder, index);
}

/* Write one fio job per file; `stonewall` makes each job wait for the previous one. */
static void command_of(const struct fio_request *request, bool write, char ret_text[COMMAND_SIZE])
{
    size_t used = (size_t)snprintf(
        ret_text, COMMAND_SIZE,
        "fio --output-format=json --ioengine=%s --direct=1 --bs=%zu --iodepth=%u %s 2>/dev/null",
        request->engine, request->block_bytes, request->depth,
        write ? "--rw=write --end_fsync=1" : "--rw=read");

    for (unsigned i = 0; i < request->file_count; i++) {
        char path[1024];
        file_of(request, i, path);
        if (write)
            unlink(path);
        used += (size_t)snprintf(ret_text + used, COMMAND_SIZE - used,
                                 " --name=file%u --stonewall --filename='%s' --size=%zu", i, path,
                                 request->sizes[i] / 4096 * 4096);
        if (used >= COMMAND_SIZE)
            measure_die("fio's command is too long");
    }
}

/* Return the sum of the jobs' runtimes: the jobs ran one after the other. */
static double seconds_of(const json_t *answer, bool write)
{
    const json_t *jobs = json_object_get(answer, "jobs"), *job;
    double milliseconds = 0.0;
    size_t i;

    if (json_array_size(jobs) == 0)
        return -1.0;
    json_array_foreach(jobs, i, job)
    {
        const json_t *side = json_object_get(job, write ? "write" : "read");
        if (json_integer_value(json_object_get(job, "error")) != 0)
            return -1.0;
        milliseconds += json_number_value(json_object_get(side, "runtime"));
    }
    return milliseconds / 1e3;
}

static double run(const struct fio_request *request, bool write)
{
    char command[COMMAND_SIZE];

    command_of(request, write, command);
    FILE *pipe = popen(command, "r");
    json_t *answer = pipe ? json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    double seconds = answer ? seconds_of(answer, write) : -1.0;

    json_decref(answer);
    if (pipe && pclose(pipe) != 0)
        seconds = -1.0;
    if (seconds <= 0)
        printf("   fio is left out: it is not installed, or it failed\n");
    return seconds;
}

double fio_write(const struct fio_request *request)
{
    return run(request, true);
}

double fio_read(const struct fio_request *request)
{
    return run(request, false);
}

void fio_remove(const struct fio_request *request)
{
    for (unsigned i = 0; i < request->file_count; i++) {
        char path[1024];
        file_of(request, i, path);
        unlink(path);
    }
}
