/*
 * The queries of an instrumented source file at every place that can be wrong
 * (tests/mutants/mutants.py, which includes this before anything else). FIRN_MUTANT is the number
 * of the place that is wrong in this run; FIRN_MUTANTS_REACHED is a file with a byte for each
 * place, set to 1 when the place is queried.
 */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One of each in a program, however many files of it are instrumented. */
__attribute__((weak)) long mutant_live = -1;
__attribute__((weak)) volatile unsigned char *mutant_reached;

/* Every instrumented file has its own constructor; all of them do the same. */
__attribute__((constructor)) static void mutant_begin(void)
{
    const char *live = getenv("FIRN_MUTANT");
    const char *path = getenv("FIRN_MUTANTS_REACHED");
    struct stat status;
    if (live)
        mutant_live = strtol(live, NULL, 10);
    if (!path || mutant_reached)
        return;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) < 0)
        abort();
    void *map =
        mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED)
        abort();
    mutant_reached = map;
    close(descriptor);
}

static inline int mutant(long number)
{
    if (mutant_reached)
        mutant_reached[number] = 1;
    return number == mutant_live;
}

/* A factor behind a + or a -: turns it into the other one. */
static inline int mutant_sign(long number)
{
    return mutant(number) ? -1 : 1;
}
