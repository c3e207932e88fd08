#include "worker/session/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/flag_value.h"

enum flag {
    FLAG_JOB = 256,
    FLAG_NODE,
    FLAG_SLOT,
    FLAG_THREADS,
    FLAG_DEVICE,
    FLAG_LISTEN,
    FLAG_SOCKET,
    FLAG_SPEC,
    FLAG_JOB_DIR,
    FLAG_CHECKPOINT_DIR,
    FLAG_DIGESTS_DIR,
    FLAG_FAILURE_TIMEOUT,
    FLAG_LINK_CHECKSUMS,
    FLAG_LINK_ANY_ADDRESS,
    FLAG_DEVICE_DIGESTS,
    FLAG_HELP,
    FLAG_VERSION,
};

static const struct option flags[] = {
    {"job", required_argument, NULL, FLAG_JOB},
    {"node", required_argument, NULL, FLAG_NODE},
    {"slot", required_argument, NULL, FLAG_SLOT},
    {"threads", required_argument, NULL, FLAG_THREADS},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"listen", required_argument, NULL, FLAG_LISTEN},
    {"socket", required_argument, NULL, FLAG_SOCKET},
    {"spec", required_argument, NULL, FLAG_SPEC},
    {"job-dir", required_argument, NULL, FLAG_JOB_DIR},
    {"checkpoint-dir", required_argument, NULL, FLAG_CHECKPOINT_DIR},
    {"data-digests-dir", required_argument, NULL, FLAG_DIGESTS_DIR},
    {"failure-timeout-ms", required_argument, NULL, FLAG_FAILURE_TIMEOUT},
    {"link-checksums", no_argument, NULL, FLAG_LINK_CHECKSUMS},
    {"link-any-address", no_argument, NULL, FLAG_LINK_ANY_ADDRESS},
    {"device-digests", no_argument, NULL, FLAG_DEVICE_DIGESTS},
    {"help", no_argument, NULL, FLAG_HELP},
    {"version", no_argument, NULL, FLAG_VERSION},
    {NULL, 0, NULL, 0},
};

static int take_text(const char *name, const char *text, char *ret, size_t size,
                     struct error *error)
{
    if (strlen(text) >= size)
        return error_set(error, -EINVAL, "--%s: longer than %zu characters", name, size - 1);
    strcpy(ret, text);
    return 0;
}

static int take_number(const char *name, const char *text, unsigned long max, unsigned long *ret,
                       struct error *error)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || value > max)
        return error_set(error, -EINVAL, "--%s: \"%s\" is not a number up to %lu", name, text, max);
    *ret = value;
    return 0;
}

/* "cpu", "cuda" for the first visible GPU, "cuda:2" for the third */
static int take_device(const char *text, struct worker_options *options, struct error *error)
{
    unsigned long index = 0;
    int status = 0;

    if (!strncmp(text, "cuda:", 5))
        status = take_number("device", text + 5, 4096, &index, error);
    else if (strcmp(text, "cpu") != 0 && strcmp(text, "cuda") != 0)
        status = error_set(error, -EINVAL, "--device: \"%s\" is not cpu, cuda or cuda:INDEX", text);
    options->device = strcmp(text, "cpu") != 0 ? KERNEL_BACKEND_CUDA : KERNEL_BACKEND_CPU;
    options->device_index = (unsigned)index;
    return status;
}

static int take_flag(int flag, const char *name, struct worker_options *options,
                     struct error *error)
{
    unsigned long number = 0;
    int status = 0;

    switch (flag) {
    case FLAG_JOB:
        return take_text(name, optarg, options->job, sizeof(options->job), error);
    case FLAG_NODE:
        return take_text(name, optarg, options->node, sizeof(options->node), error);
    case FLAG_LISTEN:
        return take_text(name, optarg, options->listen, sizeof(options->listen), error);
    case FLAG_SOCKET:
        return take_text(name, optarg, options->socket_path, OPTIONS_PATH_SIZE, error);
    case FLAG_SPEC:
        return take_text(name, optarg, options->spec_path, OPTIONS_PATH_SIZE, error);
    case FLAG_JOB_DIR:
        return take_text(name, optarg, options->job_dir, OPTIONS_PATH_SIZE, error);
    case FLAG_CHECKPOINT_DIR:
        return take_text(name, optarg, options->checkpoint_dir, OPTIONS_PATH_SIZE, error);
    case FLAG_DIGESTS_DIR:
        return take_text(name, optarg, options->digests_dir, OPTIONS_PATH_SIZE, error);
    case FLAG_SLOT:
        status = take_number(name, optarg, 4096, &number, error);
        options->slot = (unsigned)number;
        return status;
    case FLAG_THREADS:
        status = take_number(name, optarg, 1024, &number, error);
        options->thread_count = (unsigned)MAX(number, 1ul);
        return status;
    case FLAG_DEVICE:
        return take_device(optarg, options, error);
    case FLAG_FAILURE_TIMEOUT:
        status = take_number(name, optarg, 3600000, &number, error);
        options->failure_timeout_ns = number * NS_PER_MS;
        return status;
    case FLAG_LINK_CHECKSUMS:
        options->link_checksums = true;
        return 0;
    case FLAG_LINK_ANY_ADDRESS:
        options->link_any_address = true;
        return 0;
    case FLAG_DEVICE_DIGESTS:
        options->device_digests = true;
        return 0;
    default:
        assert(false && "a flag of the table");
        return -EINVAL;
    }
}

static int check_complete(const struct worker_options *options, struct error *error)
{
    const struct {
        const char *name, *value;
    } required[] = {
        {"job", options->job},
        {"node", options->node},
        {"listen", options->listen},
        {"socket", options->socket_path},
        {"spec", options->spec_path},
        {"job-dir", options->job_dir},
        {"checkpoint-dir", options->checkpoint_dir},
    };

    for (size_t i = 0; i < ARRAY_COUNT(required); i++)
        if (!required[i].value[0])
            return error_set(error, -EINVAL, "--%s is missing: firnd starts workers, people do not",
                             required[i].name);
    return 0;
}

int worker_options_parse(int argc, char **argv, struct worker_options *ret_options,
                         struct error *error)
{
    struct worker_options options = {.thread_count = 1, .failure_timeout_ns = 1500 * NS_PER_MS};
    int flag, index = 0;

    optind = 1;
    opterr = 0;
    while ((flag = getopt_long(argc, argv, ":", flags, &index)) != -1) {
        if (flag == FLAG_HELP) {
            printf(
                "usage: firn-worker --job NAME ...    started by firnd, one a slot\n"
                "       firn-worker sample CHECKPOINT --prompt TEXT [--tokens N] [--temperature T]\n"
                "                          [--top-k K] [--seed S]\n"
                "       firn-worker --version\n");
            return 1;
        }
        if (flag == FLAG_VERSION) {
            printf("firn-worker %s\n", FIRN_VERSION);
            return 1;
        }
        if (flag == '?' || flag == ':')
            return error_set(error, -EINVAL, "%s: %s; see --help", argv[optind - 1],
                             flag == ':' ? "needs a value" : "no such flag");
        if (flag_value_forgotten(argv))
            return error_set(error, -EINVAL, "%s: needs a value, but \"%s\" looks like a flag",
                             argv[optind - 2], optarg);
        int status = take_flag(flag, flags[index].name, &options, error);
        if (status)
            return status;
    }
    int status = check_complete(&options, error);
    if (!status)
        *ret_options = options;
    return status;
}
