#include "ctl/job/job_pretrained.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/read/model_folder.h"
#include "ctl/job/job_path.h"
#include "elastic/job/huggingface.h"

#define CONTEXT_MAX 1048576.0
#define BYTES_VOCAB 256

/* Return model.context; 0: the file has none, or an impossible value. */
static unsigned context_of(const json_t *model)
{
    double context = json_number_value(json_object_get(model, "context"));
    return context >= 1 && context <= CONTEXT_MAX ? (unsigned)context : 0;
}

static int fill(json_t *model, const char *path, struct error *error)
{
    AUTO_JSON json_t *config = NULL;
    AUTO_JSON json_t *keys = NULL;
    int status = model_folder_config(path, &config, error);

    if (status == 0)
        status = huggingface_model(config, context_of(model), &keys, error);
    if (status == 0)
        status = huggingface_check_positions(config, context_of(model), error);
    if (status == 0 && json_object_update_missing(model, keys) < 0)
        status = error_set(error, -ENOMEM, "no memory for config.json");
    return status < 0 ? status : huggingface_agree(keys, model, error);
}

/* Require data.format for a pretrained model: its tokens are not bytes, so the default would train
 * it on noise. */
static int check_format(const json_t *root, const json_t *model, struct error *error)
{
    json_int_t vocab = json_integer_value(json_object_get(model, "vocab"));

    if (vocab <= BYTES_VOCAB || json_object_get(json_object_get(root, "data"), "format"))
        return 0;
    return error_set(error, -EINVAL,
                     "the model has %" JSON_INTEGER_FORMAT
                     " tokens, and data.format is not given: say which token files the data is "
                     "(uint16, uint32 or llmc), made with the tokenizer in that folder",
                     vocab);
}

/* Return whether @from looks like "gpt2" or "meta-llama/Llama-3.2-1B", not like a local folder. */
static bool looks_like_hub_name(const char *from)
{
    const char *slash = strchr(from, '/');
    return from[0] != '/' && from[0] != '.' && from[0] != '~' &&
           (!slash || (slash[1] != '\0' && !strchr(slash + 1, '/')));
}

static void hint_at_hub(const char *from, struct error *error)
{
    char text[ERROR_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s", error->text);
    error_record(error, -ENOENT,
                 "%.500s (model.from is a folder; if %.100s is a model of the Hugging Face hub: hf "
                 "download %.100s --local-dir DIR, then from: DIR)",
                 text, from, from);
}

int job_pretrained_fill(json_t *root, const char *folder, struct error *error)
{
    json_t *model = json_object_get(root, "model");
    const char *from = json_string_value(json_object_get(model, "from"));
    char path[4096];

    if (!from || from[0] == '\0')
        return 0;
    if (job_path_from(folder, from, path, sizeof(path)))
        return error_set(error, -ENAMETOOLONG, "model.from: the path is too long");
    int status = fill(model, path, error);
    if (status == 0)
        status = check_format(root, model, error);
    if (status < 0)
        error_prefix(error, "model.from %s: ", path);
    if (status == -ENOENT && looks_like_hub_name(from))
        hint_at_hub(from, error);
    return status;
}
