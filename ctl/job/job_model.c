#include "ctl/job/job_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/read/model_folder.h"
#include "elastic/job/job_problems.h"

#define TENSOR_NAME_SIZE 96

struct look {
    const struct job_spec *spec;
    struct job_problems problems;
    struct model_folder *model;
    char *unread;
};

static void on_problem(void *context, const struct error *error)
{
    struct look *look = context;

    if (error->code == -EACCES)
        snprintf(look->unread, ERROR_TEXT_SIZE, "%s", error->text);
    else
        job_problem(&look->problems, "model.from", "%s", error->text);
}

/* Published GPT-2 checkpoints lack the first component of their tensors' names. */
static void check_tensor(struct look *look, const char *name, size_t rows, size_t columns)
{
    static const char first_word[] = "transformer.";
    const size_t shape[] = {rows, columns};
    char longer[TENSOR_NAME_SIZE + sizeof(first_word)];
    struct error error = {0};

    snprintf(longer, sizeof(longer), "%s%s", first_word, name);
    if (model_folder_check(look->model, model_folder_has(look->model, longer) ? longer : name,
                           shape, columns > 0 ? 2 : 1, &error))
        job_problem(&look->problems, "model.from", "%s", error.text);
}

/* Check one tensor for each size of the model; the job reads all tensors when it begins. */
static void check_gpt2(struct look *look)
{
    const struct job_spec *spec = look->spec;
    char name[TENSOR_NAME_SIZE];

    check_tensor(look, "wte.weight", spec->model.vocab, spec->model.width);
    snprintf(name, sizeof(name), "h.%u.attn.c_attn.weight", spec->model.layers - 1);
    check_tensor(look, name, spec->model.width, (size_t)3 * spec->model.width);
    snprintf(name, sizeof(name), "h.%u.mlp.c_fc.weight", spec->model.layers - 1);
    check_tensor(look, name, spec->model.width, spec->model.hidden);
}

static void check_llama(struct look *look)
{
    const struct job_spec *spec = look->spec;
    char name[TENSOR_NAME_SIZE];

    check_tensor(look, "model.embed_tokens.weight", spec->model.vocab, spec->model.width);
    snprintf(name, sizeof(name), "model.layers.%u.self_attn.k_proj.weight", spec->model.layers - 1);
    check_tensor(look, name, (size_t)spec->model.kv_heads * spec->model.head_width,
                 spec->model.width);
    snprintf(name, sizeof(name), "model.layers.%u.mlp.up_proj.weight", spec->model.layers - 1);
    check_tensor(look, name, spec->model.hidden, spec->model.width);
}

static int check_tensors(struct look *look, struct error *error)
{
    int status = model_folder_open(look->spec->model.from, &look->model, error);

    if (status)
        return status;
    if (!strcmp(look->spec->model.family, "gpt2"))
        check_gpt2(look);
    else
        check_llama(look);
    model_folder_close(look->model);
    return 0;
}

int job_model_check(const struct job_spec *spec, char ret_unread[ERROR_TEXT_SIZE],
                    struct error *error)
{
    struct look look = {
        .spec = spec, .problems = {.where = spec->name, .error = error}, .unread = ret_unread};

    ret_unread[0] = '\0';
    if (!spec->model.from[0])
        return 0;
    if (access(spec->model.from, R_OK | X_OK)) {
        snprintf(ret_unread, ERROR_TEXT_SIZE, "%.900s: %s", spec->model.from, strerror(errno));
        return 0;
    }
    int status = model_folder_look(spec->model.from, on_problem, &look);
    if (status == 0 && !ret_unread[0])
        status = check_tensors(&look, error);
    return status < 0 ? status : job_problems_result(&look.problems);
}
