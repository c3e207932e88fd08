/*
 * SIGKILL at 200 random moments of real saves. A child process saves, commits and retains in a
 * loop, reports every commit that has returned, and is killed. The parent then reads the whole
 * folder: every listed checkpoint is good, no reported checkpoint is missing. The next child
 * continues in the same folder, over the remains of the previous child.
 *
 * The moments follow from a seed, which is printed; FIRN_SEED repeats a run as far as timing
 * allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/sample.h"

#define KILLS  200
#define KEEP   2
#define FROZEN 3

struct story {
    char folder[64];
    uint64_t random;
    uint64_t told; /* the newest step whose commit has returned in some process */
    uint64_t save_ns;
    unsigned listed, killed_parts;
};

static uint64_t draw(struct story *story)
{
    story->random = story->random * 6364136223846793005u + 1442695040888963407u;
    return story->random >> 33;
}

static void tell(int told, uint64_t step)
{
    if (write(told, &step, sizeof(step)) != sizeof(step))
        _exit(2);
}

/* In the child, which reports when it begins; every second child writes on another layout. */
static void save_until_killed(const char *folder, uint64_t step, int told)
{
    const char *why;
    const struct io *io = io_probe(&why);
    struct checkpoint_writer *writer = sample_writer(io, 4096);
    for (tell(told, step - 1);; step++) {
        struct error error = {0};
        unsigned world = 1 + (unsigned)(step % 3);
        if (sample_save(writer, io, folder, step, world, &error) != 0 ||
            checkpoint_retain(folder, KEEP, step, 0, &error) != 0) {
            fprintf(stderr, "step %" PRIu64 ": %s\n", step, error.text);
            _exit(1);
        }
        tell(told, step);
    }
}

/* Return when the child is about to begin with @step, however long its start has taken. */
static pid_t start_child(const struct story *story, uint64_t step, int *ret_told)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        save_until_killed(story->folder, step, ends[1]);
    }
    close(ends[1]);
    *ret_told = ends[0];
    uint64_t before;
    assert_int_equal(read(ends[0], &before, sizeof(before)), sizeof(before));
    assert_int_equal(before, step - 1);
    return child;
}

/* Read the child's reports until @deadline_ns or, without a deadline, until the child ends. */
static void listen_until(struct story *story, int told, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now_ns = clock_monotonic_ns(), left_ns = deadline_ns - now_ns;
        struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_SECOND),
                                .tv_nsec = (long)(left_ns % NS_PER_SECOND)};
        struct pollfd polled = {.fd = told, .events = POLLIN};
        if (deadline_ns != 0 && now_ns >= deadline_ns)
            return;
        if (ppoll(&polled, 1, deadline_ns != 0 ? &left : NULL, NULL) == 0)
            return;
        uint64_t step;
        if (read(told, &step, sizeof(step)) != sizeof(step))
            return;
        story->told = step;
    }
}

static void kill_child(struct story *story, pid_t child, int told)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status))
        fail_msg("the saving process ended by itself with %d", WEXITSTATUS(status));
    listen_until(story, told, 0);
    close(told);
}

static unsigned count_parts(const char *folder)
{
    unsigned count = 0;
    uint64_t step;
    const struct dirent *entry;
    DIR *directory = opendir(folder);
    while ((entry = readdir(directory)))
        count += folder_classify(entry->d_name, &step) == FOLDER_PART;
    closedir(directory);
    return count;
}

static uint64_t check_disk(struct story *story)
{
    uint64_t *steps, newest = 0;
    size_t count;
    struct error error = {0};
    assert_int_equal(checkpoint_list(story->folder, &steps, &count, &error), 0);
    for (size_t i = 0; i < count; i++) {
        if (sample_check(story->folder, steps[i], &error) != 0)
            fail_msg("step %" PRIu64 ": %s", steps[i], error.text);
        newest = MAX(newest, steps[i]);
    }
    assert_true(newest == story->told || newest == story->told + 1);
    assert_true(count >= MIN(story->told, (uint64_t)KEEP));
    free(steps);
    story->listed += (unsigned)count;
    story->killed_parts += count_parts(story->folder) > 0;
    return newest;
}

/* Measure the duration of a save, so that the moments spread over several saves. */
static void measure(struct story *story)
{
    int told;
    pid_t child = start_child(story, 1, &told);
    uint64_t began_ns = 0;
    while (story->told < 8) {
        uint64_t before = story->told;
        listen_until(story, told, clock_monotonic_ns() + NS_PER_SECOND / 1000);
        if (before == 0 && story->told > 0)
            began_ns = clock_monotonic_ns();
    }
    story->save_ns = (clock_monotonic_ns() - began_ns) / 8 + 1;
    kill_child(story, child, told);
}

/* The first save that is not killed removes the remains of all killed saves. */
static void check_leftovers(const struct story *story, uint64_t step)
{
    unsigned count = 0;
    const struct dirent *entry;
    struct error error = {0};
    sample_write(story->folder, step, 1);
    assert_int_equal(checkpoint_retain(story->folder, KEEP, step, 0, &error), 0);
    DIR *directory = opendir(story->folder);
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    assert_int_equal(count, KEEP);
}

static void test_a_kill_at_any_moment_leaves_good_checkpoints(void **state)
{
    (void)state;
    struct story story = {0};
    const char *seed = getenv("FIRN_SEED");
    story.random = seed ? strtoull(seed, NULL, 10) : clock_monotonic_ns() % 1000000007;
    print_message("[   INFO   ] FIRN_SEED=%" PRIu64 "\n", story.random);
    sample_frozen = FROZEN;
    sample_folder(story.folder);
    measure(&story);
    uint64_t newest = check_disk(&story);
    for (unsigned round = 0; round < KILLS; round++) {
        int told;
        uint64_t patience_ns = draw(&story) % (4 * story.save_ns);
        pid_t child = start_child(&story, newest + 1, &told);
        listen_until(&story, told, clock_monotonic_ns() + patience_ns);
        kill_child(&story, child, told);
        newest = check_disk(&story);
        story.told = newest; /* one more commit may have succeeded than was reported */
    }
    print_message("[   INFO   ] %" PRIu64 " checkpoints, %u verified, %u of %d kills in the middle "
                  "of a save\n",
                  newest, story.listed, story.killed_parts, KILLS);
    assert_true(story.killed_parts > 0);
    check_leftovers(&story, newest + 1);
    sample_remove(story.folder);
    sample_frozen = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kill_at_any_moment_leaves_good_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
