/*
 * A wall clock that a test can step. Preloaded into firnd and its workers, it adds the seconds in
 * the file FIRN_CLOCK_STEP (a 64-bit number in the machine's order, mapped) to the time of day. The
 * monotonic clock stays as it is, as when an operator sets a machine's clock.
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

/* The C library's functions, taken over by their symbols: their declarations stay the header's. */
int stepped_clock_gettime(clockid_t clock, struct timespec *now) __asm__("clock_gettime");
int stepped_gettimeofday(struct timeval *now, void *zone) __asm__("gettimeofday");
time_t stepped_time(time_t *copy) __asm__("time");

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

int stepped_clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);

    if (!status && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += __atomic_load_n(step, __ATOMIC_RELAXED);
    return status;
}

int stepped_gettimeofday(struct timeval *now, void *zone)
{
    struct timespec time;

    (void)zone;
    if (stepped_clock_gettime(CLOCK_REALTIME, &time))
        return -1;
    *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return 0;
}

time_t stepped_time(time_t *copy)
{
    struct timespec now;

    if (stepped_clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (copy)
        *copy = now.tv_sec;
    return now.tv_sec;
}
