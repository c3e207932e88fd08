#include "worker/session/sample.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/flag_value.h"
#include "checkpoint/read/source_text.h"
#include "elastic/job/job_spec.h"
#include "model/net/generate.h"
#include "worker/state/restore.h"
#include "worker/state/state.h"

#define TOKENS_MAX 1000000ul

struct sample_request {
    const char *checkpoint;
    const char *prompt;
    unsigned long tokens, top_k, seed, threads;
    unsigned long copies;  /* descriptor of a text with the checkpoint's nodes; 0: it is local */
    unsigned long failure; /* descriptor for the text of a failure; 0: standard error */
    double temperature;
};

struct sampler {
    struct job_spec spec;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct state *state;
    void **weights;
    struct checkpoint_remote *remote; /* NULL: the whole checkpoint is local */
    char manifest_sha256[65];
};

static int usage(const char *problem)
{
    fprintf(
        stderr,
        "firn-worker sample: %s\n"
        "usage: firn-worker sample CHECKPOINT --prompt TEXT [--tokens N] [--temperature T] [--top-k K]\n"
        "                   [--seed S] [--threads T] [--copies DESCRIPTOR] [--failure DESCRIPTOR]\n"
        "A job on bytes takes text; other jobs take and print token numbers, separated by blanks.\n",
        problem);
    return 2;
}

static bool take_number(const char *text, unsigned long max, unsigned long *ret)
{
    char *end;

    errno = 0;
    *ret = strtoul(text, &end, 10);
    return !errno && end != text && !*end && *ret <= max && text[0] != '-';
}

static bool take_temperature(const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return end != text && !*end && isfinite(*ret) && *ret >= 0;
}

static const char *parse(int argc, char **argv, struct sample_request *request)
{
    static const struct option flags[] = {
        {"prompt", required_argument, NULL, 'p'},
        {"tokens", required_argument, NULL, 'n'},
        {"temperature", required_argument, NULL, 't'},
        {"top-k", required_argument, NULL, 'k'},
        {"seed", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 'j'},
        {"copies", required_argument, NULL, 'c'},
        {"failure", required_argument, NULL, 'f'},
        {NULL, 0, NULL, 0},
    };
    int flag;

    optind = 1;
    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (flag_value_forgotten(argv))
            return "a value that begins with two dashes is written as --prompt=--words";
        bool good = flag == 'p'   ? (request->prompt = optarg) != NULL
                    : flag == 'n' ? take_number(optarg, TOKENS_MAX, &request->tokens)
                    : flag == 't' ? take_temperature(optarg, &request->temperature)
                    : flag == 'k' ? take_number(optarg, MODEL_VOCAB_MAX, &request->top_k)
                    : flag == 's' ? take_number(optarg, INT64_MAX, &request->seed)
                    : flag == 'c' ? take_number(optarg, 1024, &request->copies)
                    : flag == 'f' ? take_number(optarg, 1024, &request->failure)
                    : flag == 'j' ? take_number(optarg, 256, &request->threads) && request->threads
                                  : false;
        if (!good)
            return "a flag is unknown, or its value is not a number in range";
    }
    if (optind + 1 != argc)
        return "exactly one checkpoint folder is wanted";
    request->checkpoint = argv[optind];
    return request->prompt && request->prompt[0] ? NULL : "--prompt is missing or empty";
}

/* Read the source that firnctl passes through the descriptor (checkpoint/read/source_text.h). */
static int take_source(struct sampler *sampler, int descriptor, struct error *error)
{
    AUTO_FREE char *text = malloc(SOURCE_TEXT_MAX);
    ssize_t size = text ? read(descriptor, text, SOURCE_TEXT_MAX) : -1;

    close(descriptor);
    if (size < 0)
        return error_set(error, -EIO, "--copies: nothing can be read from that descriptor");
    return source_text_decode(text, (size_t)size, &sampler->remote, sampler->manifest_sha256,
                              error);
}

static struct checkpoint_source source_at(const struct sampler *sampler, const char *path)
{
    return (struct checkpoint_source){.folder = path,
                                      .node = "",
                                      .manifest_sha256 = sampler->manifest_sha256,
                                      .remote = sampler->remote};
}

static int restore(struct sampler *sampler, const char *path, struct error *error)
{
    const struct checkpoint_source source = source_at(sampler, path);
    unsigned count = sampler->state->unit_count;

    return sampler->remote ? restore_copies(sampler->state, &source, 0, count, error)
                           : restore_units(sampler->state, path, 0, count, error);
}

static int read_spec(struct sampler *sampler, const char *path, struct error *error)
{
    struct checkpoint_reader *reader;
    const struct checkpoint_source source = source_at(sampler, path);
    int status = sampler->remote ? checkpoint_open_copies(&source, &reader, error)
                                 : checkpoint_open(path, &reader, error);

    if (status)
        return status;
    status =
        job_spec_decode(checkpoint_manifest(reader)->spec, path, NULL, NULL, &sampler->spec, error);
    checkpoint_close(reader);
    return status;
}

static int sampler_open(struct sampler *sampler, const struct sample_request *request,
                        struct error *error)
{
    const struct kernel_options options = {.thread_count = (unsigned)request->threads};
    int status = request->copies ? take_source(sampler, (int)request->copies, error) : 0;

    if (!status)
        status = read_spec(sampler, request->checkpoint, error);
    sampler->kernel = kernel_cpu();
    if (!status)
        status = sampler->kernel->open(&options, &sampler->device, error);
    if (!status)
        status =
            state_new(&sampler->spec, sampler->kernel, sampler->device, &sampler->state, error);
    if (!status)
        status = restore(sampler, request->checkpoint, error);
    if (status)
        return status;
    sampler->weights = calloc(sampler->state->unit_count, sizeof(*sampler->weights));
    if (!sampler->weights)
        return error_set(error, -ENOMEM, "no memory for sampling");
    for (unsigned unit = 0; unit < sampler->state->unit_count; unit++)
        sampler->weights[unit] = sampler->state->units[unit].weights;
    return 0;
}

static void sampler_done(struct sampler *sampler)
{
    free(sampler->weights);
    checkpoint_remote_free(sampler->remote);
    state_free(sampler->state);
    if (sampler->kernel)
        sampler->kernel->close(sampler->device);
}

/* Bytes are tokens; elsewhere the prompt is a list of numbers. Return: their number, or -EINVAL. */
static long prompt_tokens(const struct sampler *sampler, const char *prompt, int32_t *ret_tokens,
                          struct error *error)
{
    long count = 0;
    char *end;

    if (sampler->spec.data.format == JOB_FORMAT_BYTES) {
        for (; prompt[count]; count++)
            ret_tokens[count] = (unsigned char)prompt[count];
        return count;
    }
    for (const char *at = prompt; *at; at = end) {
        long token = strtol(at, &end, 10);
        if (end == at || token < 0 || token >= (long)sampler->spec.model.vocab)
            return error_set(
                error, -EINVAL,
                "--prompt: this job's data are token numbers: give numbers below %u, separated by blanks",
                sampler->spec.model.vocab);
        ret_tokens[count++] = (int32_t)token;
        while (*end == ' ')
            end++;
    }
    return count;
}

static bool print_token(int32_t token, void *context)
{
    const struct sampler *sampler = context;

    if (sampler->spec.data.format == JOB_FORMAT_BYTES)
        putchar(token & 0xff);
    else
        printf(" %d", token);
    return fflush(stdout) == 0;
}

static int sample(struct sampler *sampler, const struct sample_request *request,
                  struct error *error)
{
    AUTO_FREE int32_t *prompt = calloc(strlen(request->prompt) + 1, sizeof(*prompt));
    long count = prompt ? prompt_tokens(sampler, request->prompt, prompt, error) : -ENOMEM;
    const struct generate_options options = {
        .kernel = sampler->kernel,
        .device = sampler->device,
        .spec = &sampler->state->model,
        .weights = sampler->weights,
        .prompt = prompt,
        .prompt_count = (size_t)MAX(count, 0l),
        .count = request->tokens,
        .temperature = request->temperature,
        .top_k = (unsigned)request->top_k,
        .seed = request->seed,
    };

    if (count < 0)
        return (int)count;
    fputs(request->prompt, stdout);
    int status = generate(&options, print_token, sampler, error);
    putchar('\n');
    return status;
}

/* For firnctl, which marks the checkpoint's record as damaged. */
static void tell_failure(const struct sample_request *request, int status, const char *text)
{
    if (!request->failure || dprintf((int)request->failure, "%d\n%s", -status, text) < 0)
        fprintf(stderr, "firn-worker sample: %s\n", text);
}

int sample_main(int argc, char **argv)
{
    struct sample_request request = {.tokens = 256, .temperature = 0.8, .threads = 1};
    struct sampler sampler = {0};
    struct error error = {0};
    const char *problem = parse(argc, argv, &request);
    int status;

    if (problem)
        return usage(problem);
    status = sampler_open(&sampler, &request, &error);
    if (!status)
        status = sample(&sampler, &request, &error);
    sampler_done(&sampler);
    if (status)
        tell_failure(&request, status, error.text[0] ? error.text : strerror(-status));
    return status ? 1 : 0;
}
