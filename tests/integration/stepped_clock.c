/*
 * A wall clock that a test can step: preloaded into firnd and its workers, it adds the seconds that
 * stand in the file FIRN_CLOCK_STEP (a 64-bit number in the machine's order, mapped) to the time of
 * day. The monotonic clock stays as it is, as when somebody sets a machine's clock.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *step;

__attribute__((constructor)) static void map_step(void)
{
    const char *path = getenv("FIRN_CLOCK_STEP");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (file < 0)
        return;
    void *memory = mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory != MAP_FAILED)
        step = memory;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);

    if (!status && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += __atomic_load_n(step, __ATOMIC_RELAXED);
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time))
        return -1;
    *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_time)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
