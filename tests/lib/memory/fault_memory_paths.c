#include "lib/memory/fault_memory_paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PATH_FRAMES    24
#define PATH_NOTES_MAX (1u << 16)

static uint64_t path_notes[PATH_NOTES_MAX]; /* a hash of the path, by number of the allocation */
static atomic_uint path_note_count;
static _Thread_local bool path_noting; /* ignores the allocations of backtrace() itself */

static void path_note(void)
{
    void *frames[PATH_FRAMES];
    uint64_t path = 0;
    if (path_noting)
        return;
    path_noting = true;
    int depth = backtrace(frames, PATH_FRAMES);
    path_noting = false;
    while (depth-- > 0)
        path = (path ^ (uintptr_t)frames[depth]) * 0x9e3779b97f4a7c15u;
    unsigned at = atomic_fetch_add(&path_note_count, 1);
    if (at < PATH_NOTES_MAX)
        path_notes[at] = path;
}

/** path_is_new() - return whether the noted allocation @number is the first on its path */
static bool path_is_new(unsigned number)
{
    for (unsigned i = 0; i < number; i++)
        if (path_notes[i] == path_notes[number])
            return false;
    return true;
}

void fault_memory_each_path(const struct error *failure, int (*run)(void),
                            void (*check)(int result))
{
    unsigned failed = 0;
    if (!FAULT_MEMORY)
        skip();
    check(run()); /* makes the one-time allocations */
    path_note_count = 0;
    fault_memory_seen = path_note;
    int found = run();
    fault_memory_seen = NULL;
    assert_int_equal(found, 0);
    check(found);
    assert_true(path_note_count < PATH_NOTES_MAX);
    for (unsigned k = 0; k < path_note_count; k++) {
        if (!path_is_new(k))
            continue;
        fault_memory_arm(k);
        int status = run();
        bool hit = fault_memory_disarm();
        if (status != 0 && (!hit || status != -ENOMEM))
            fail_msg("allocation %u: %d \"%s\"", k, status, failure->text);
        failed += hit;
        check(status);
    }
    print_message("[   INFO   ] %u of %u allocations\n", failed, (unsigned)path_note_count);
    assert_true(failed > 4);
}
