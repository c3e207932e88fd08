#include "lib/model/known_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "lib/base/test_folder.h"

uint64_t known_data_realtime(void *context)
{
    struct known_data_time *time = context;

    time->looks++;
    if (time->fixed_ns)
        return time->fixed_ns += time->step_ns;
    return clock_unix_ns() + (uint64_t)time->ahead_ns;
}

const struct clock *known_data_later(void)
{
    static struct known_data_time later = {.ahead_ns = 10 * (int64_t)NS_PER_SECOND};
    static const struct clock clock = {.realtime_ns = known_data_realtime, .context = &later};

    return &clock;
}

struct dataset_options known_data_options(void)
{
    static char folder[256];
    static const char *path;

    snprintf(folder, sizeof(folder), "%s", test_folder_at("memo"));
    path = test_folder_at("tokens");
    struct dataset_options options = data_folder_options(&path, 1);
    options.memo_folder = folder;
    options.memory_max_bytes = 1; /* all data is large */
    options.clock = known_data_later();
    return options;
}

void known_data_set_modified(const char *name, time_t seconds, long nanoseconds)
{
    const struct timespec times[] = {{.tv_sec = seconds},
                                     {.tv_sec = seconds, .tv_nsec = nanoseconds}};
    assert_int_equal(utimensat(AT_FDCWD, test_folder_at(name), times, 0), 0);
}

void known_data_write(const char *name, const char *text)
{
    test_folder_write_text(name, text);
    known_data_set_modified(name, 1000, 5);
}

void known_data_rewrite(const char *name, const char *text)
{
    struct stat before, after;

    assert_int_equal(stat(test_folder_at(name), &before), 0);
    do {
        known_data_write(name, text);
        assert_int_equal(stat(test_folder_at(name), &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

bool known_data_is_read(const struct dataset_options *options)
{
    struct dataset_options plain = *options;
    plain.memo_folder = NULL;
    plain.memory_max_bytes = 0;
    struct dataset *dataset = data_folder_open(options), *copied = data_folder_open(&plain);
    bool known = dataset_was_known(dataset);

    assert_true(hash128_equal(dataset_digest(dataset), dataset_digest(copied)));
    assert_false(dataset_was_known(copied));
    dataset_close(dataset);
    dataset_close(copied);
    return !known;
}
