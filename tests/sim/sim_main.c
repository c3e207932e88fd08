/*
 * firn-sim: run many histories, each from one seed; print the first seed that breaks a promise.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/check/sim_check.h"

static const char usage[] =
    "firn-sim [--seeds A..B | --seed S] [--bug NAME] [--seconds N] [--keep-going] [--trace]\n"
    "firn-sim --jobs N [--seeds A..B] [--seconds N]\n"
    "firn-sim --bugs [--seeds A..B]\n"
    "  --seeds A..B   run these seeds (default 1..1000)\n"
    "  --seed S       run one\n"
    "  --bug NAME     break a rule on purpose: succeeds when some seed notices\n"
    "  --bugs         break every rule in turn: succeeds when all are noticed\n"
    "  --seconds N    begin no seed after N seconds of processor time\n"
    "  --jobs N       divide the seeds among N processes, which keep going\n"
    "  --keep-going   report every failing seed, not only the first\n"
    "  --trace        say what happens\n"
    "  --list-bugs    the names of the bugs\n";

struct options {
    uint64_t first, last, stride;
    unsigned jobs;
    enum sim_bug bug;
    double seconds;
    bool trace, keep_going, all_bugs;
};

struct tally {
    uint64_t seeds, failures, commits, events, memory_plans, disk_plans, unfenced, unjudged;
    uint64_t longest_wait_ns, longest_wait_seed; /* for a commit, after all faults were over */
};

static sigjmp_buf assertion;

/* An assertion of the real code is a finding like any other. */
static void on_abort(int signal)
{
    siglongjmp(assertion, signal);
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void tell_replay(const struct options *options, uint64_t seed)
{
    if (options->bug == BUG_NONE && !options->trace)
        printf("  replay: firn-sim --seed %" PRIu64 " --trace\n", seed);
}

/* Return whether the seed passes. After a failed assertion its memory is left as it is. */
static bool run_seed(const struct options *options, uint64_t seed, struct tally *tally)
{
    tally->seeds++;
    if (sigsetjmp(assertion, 1) != 0) {
        printf("seed %" PRIu64 ": an assertion failed\n", seed);
        tell_replay(options, seed);
        tally->failures++;
        return false;
    }
    struct sim *sim = sim_new(seed, options->bug, options->trace);
    bool good = sim_run(sim);
    if (!good) {
        printf("seed %" PRIu64 ": %s\n", seed, sim->failure);
        tell_replay(options, seed);
        tally->failures++;
    }
    tally->commits += sim->check->commits;
    tally->events += sim->fired;
    tally->memory_plans += sim->check->counts.memory_plans;
    tally->disk_plans += sim->check->counts.disk_plans;
    tally->unfenced += sim->check->counts.unfenced;
    tally->unjudged += sim->unjudged;
    if (sim->check->longest_wait_ns > tally->longest_wait_ns) {
        tally->longest_wait_ns = sim->check->longest_wait_ns;
        tally->longest_wait_seed = seed;
    }
    sim_free(sim);
    return good;
}

static int run_all(const struct options *options)
{
    struct tally tally = {0};
    double began = processor_seconds();
    for (uint64_t seed = options->first; seed <= options->last; seed += options->stride) {
        if (options->seconds > 0 && processor_seconds() - began >= options->seconds)
            break;
        bool good = run_seed(options, seed, &tally);
        fflush(stdout);
        if (!good && !options->keep_going)
            break;
    }
    double seconds = processor_seconds() - began;
    printf("%" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64 " steps committed, %" PRIu64
           " generations from memory, %" PRIu64 " from disk, %" PRIu64 " unfenced commits, %" PRIu64
           " with a wrong bit that nobody can find, %" PRIu64
           " events; longest wait with all faults over %.0f s (seed %" PRIu64
           "); %.1f s, %.1f seeds/s\n",
           tally.seeds, tally.failures, tally.commits, tally.memory_plans, tally.disk_plans,
           tally.unfenced, tally.unjudged, tally.events, (double)tally.longest_wait_ns / 1e9,
           tally.longest_wait_seed, seconds, (double)tally.seeds / seconds);
    return (tally.failures > 0) == (options->bug != BUG_NONE) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Break each rule alone: some seed must notice. */
static int run_bugs(const struct options *given)
{
    bool good = true;
    for (unsigned bug = BUG_NONE + 1; bug < BUG_COUNT; bug++) {
        const struct sim_broken_rule *rule = &sim_broken_rules[bug];
        struct options options = *given;
        struct tally tally = {0};
        options.bug = (enum sim_bug)bug;
        printf("%-22s ", rule->name);
        bool noticed = !run_seed(&options, rule->seed, &tally);
        for (uint64_t seed = options.first; !noticed && seed <= options.last; seed++)
            noticed = !run_seed(&options, seed, &tally);
        if (!noticed)
            printf("is not noticed by seeds %" PRIu64 "..%" PRIu64 "\n", options.first,
                   options.last);
        good = good && noticed;
        fflush(stdout);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Every process takes each jobs-th seed. */
static int run_jobs(struct options *options)
{
    int status, result = EXIT_SUCCESS;
    options->keep_going = true;
    options->stride = options->jobs;
    printf("seeds %" PRIu64 "..%" PRIu64 " in %u processes\n", options->first, options->last,
           options->jobs);
    fflush(stdout);
    for (unsigned job = 0; job < options->jobs; job++) {
        pid_t child = fork();
        if (child == 0) {
            options->first += job;
            exit(run_all(options));
        }
        if (child < 0) {
            perror("firn-sim: fork");
            result = EXIT_FAILURE;
        }
    }
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
            result = EXIT_FAILURE;
    return result;
}

static bool parse_bug(const char *name, enum sim_bug *ret_bug)
{
    for (unsigned bug = 0; bug < BUG_COUNT; bug++)
        if (strcmp(sim_broken_rules[bug].name, name) == 0) {
            *ret_bug = (enum sim_bug)bug;
            return true;
        }
    return false;
}

static bool parse_seeds(const char *text, struct options *options)
{
    char *end;
    options->first = options->last = strtoull(text, &end, 0);
    if (strncmp(end, "..", 2) == 0)
        options->last = strtoull(end + 2, &end, 0);
    return *end == '\0' && end != text && options->first <= options->last;
}

static void list_bugs(void)
{
    for (unsigned bug = BUG_NONE + 1; bug < BUG_COUNT; bug++)
        puts(sim_broken_rules[bug].name);
}

int main(int argc, char **argv)
{
    static const struct option flags[] = {
        {"seeds", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 's'},
        {"bug", required_argument, NULL, 'b'},   {"seconds", required_argument, NULL, 'n'},
        {"keep-going", no_argument, NULL, 'k'},  {"trace", no_argument, NULL, 't'},
        {"list-bugs", no_argument, NULL, 'l'},   {"bugs", no_argument, NULL, 'a'},
        {"jobs", required_argument, NULL, 'j'},  {0}};
    struct options options = {.first = 1, .last = 1000, .stride = 1};
    bool good = true;
    int flag;
    while (good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (flag == 's')
            good = parse_seeds(optarg, &options);
        else if (flag == 'b')
            good = parse_bug(optarg, &options.bug);
        else if (flag == 'n')
            good = (options.seconds = strtod(optarg, NULL)) > 0;
        else if (flag == 'j')
            good = (options.jobs = (unsigned)strtoul(optarg, NULL, 10)) > 0;
        else if (flag == 'l')
            return list_bugs(), EXIT_SUCCESS;
        else if (flag == 't')
            options.trace = true;
        else if (flag == 'a')
            options.all_bugs = true;
        else
            good = options.keep_going = flag == 'k';
    }
    if (!good || optind < argc) {
        fputs(usage, stderr);
        return 2;
    }
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sim_drop_logs();
    if (options.all_bugs)
        return run_bugs(&options);
    return options.jobs > 0 ? run_jobs(&options) : run_all(&options);
}
