/*
 * Translation of config.json to the keys of a job's model. A key that asks for something that firn
 * does not compute is refused by name, so that no model is trained as a different one.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "elastic/job/huggingface.h"
#include "elastic/job/job_schema.h"

#define KEY_PATH_SIZE 64

/* A key of firn and one of Hugging Face. fallback_json is the value when theirs is missing or null;
 * NULL: theirs is required. */
struct translation {
    const char *ours, *theirs, *fallback_json;
};

static const struct translation gpt2_keys[] = {
    {"layers", "n_layer", NULL},
    {"width", "n_embd", NULL},
    {"heads", "n_head", NULL},
    {"context", "n_positions", NULL}, /* length of the table of positions */
    {"vocab", "vocab_size", NULL},
    {"norm_epsilon", "layer_norm_epsilon", "1e-5"},
    {"tied", "tie_word_embeddings", "true"},
};

static const struct translation llama_keys[] = {
    {"layers", "num_hidden_layers", NULL},    {"width", "hidden_size", NULL},
    {"heads", "num_attention_heads", NULL},   {"vocab", "vocab_size", NULL},
    {"hidden", "intermediate_size", NULL},    {"norm_epsilon", "rms_norm_eps", "1e-6"},
    {"tied", "tie_word_embeddings", "false"},
};

/* Keys inside "rope_scaling"; linear scaling has only the first one. */
static const struct translation llama3_keys[] = {
    {"factor", "factor", NULL},
    {"low_frequency_factor", "low_freq_factor", NULL},
    {"high_frequency_factor", "high_freq_factor", NULL},
    {"original_context", "original_max_position_embeddings", NULL},
};

/* Keys with one supported value; other values are refused. */
struct demand {
    const char *theirs, *only_json, *also_json;
};

static const struct demand gpt2_demands[] = {
    {"activation_function", "\"gelu_new\"", "\"gelu_pytorch_tanh\""},
    {"scale_attn_weights", "true", NULL},
    {"scale_attn_by_inverse_layer_idx", "false", NULL},
    {"add_cross_attention", "false", NULL},
};

static const struct demand llama_demands[] = {
    {"hidden_act", "\"silu\"", "\"swish\""},
    {"attention_bias", "false", NULL},
    {"mlp_bias", "false", NULL},
    {"partial_rotary_factor", "1.0", "1"},
};

/* Model types of the llama family: properties of their classes that no key gives. */
static const struct relative {
    const char *type;
    bool qkv_bias, qk_norm;
    unsigned head_width;     /* when head_dim is missing; 0: width / heads */
    const char *window_json; /* default of sliding_window; NULL: no window */
    bool window_asked;       /* the window applies only with use_sliding_window */
} relatives[] = {
    {.type = "llama"},
    {.type = "mistral", .window_json = "4096"},
    {.type = "qwen2", .qkv_bias = true, .window_json = "4096", .window_asked = true},
    {.type = "qwen3",
     .qk_norm = true,
     .head_width = 128,
     .window_json = "4096",
     .window_asked = true},
};

static const struct demand rope_demands[] = {
    {"partial_rotary_factor", "1.0", "1"},
};

/* Return the value of @key; NULL when missing or null. */
static const json_t *value_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_is_null(value) ? NULL : value;
}

static bool is_json(const json_t *value, const char *text)
{
    AUTO_JSON json_t *wanted = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return wanted && json_equal(value, wanted);
}

static int refuse(const char *key, const json_t *value, const char *what, struct error *error)
{
    AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    return error_set(error, -EINVAL, "config.json: %s: %.80s is not supported; %s", key,
                     text ? text : "?", what);
}

static int check_demands(const json_t *config, const struct demand *demands, size_t count,
                         struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = value_of(config, demands[i].theirs);
        char what[64];
        snprintf(what, sizeof(what), "only %s is", demands[i].only_json);
        if (value && !is_json(value, demands[i].only_json) && !is_json(value, demands[i].also_json))
            return refuse(demands[i].theirs, value, what, error);
    }
    return 0;
}

static int put(json_t *model, const char *key, json_t *value, struct error *error)
{
    return json_object_set_new(model, key, value) < 0
               ? error_set(error, -ENOMEM, "no memory for config.json")
               : 0;
}

static int translate(const json_t *config, const struct translation *keys, size_t count,
                     json_t *model, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = value_of(config, keys[i].theirs);
        if (!value && !keys[i].fallback_json)
            return error_set(error, -EINVAL, "config.json: %s is missing", keys[i].theirs);
        json_t *copy = value ? json_deep_copy(value)
                             : json_loads(keys[i].fallback_json, JSON_DECODE_ANY, NULL);
        int status = put(model, keys[i].ours, copy, error);
        if (status < 0)
            return status;
    }
    return 0;
}

/* Return whether the section has only keys that accompany a scaling, which means no scaling. */
static bool scales_nothing(const json_t *section)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)section, key, value)
    {
        if (strcmp(key, "rope_theta") != 0 && strcmp(key, "partial_rotary_factor") != 0 &&
            !json_is_null(value))
            return false;
    }
    return true;
}

/* Translate @section, which may be NULL, to the keys of model.rope_scaling. */
static int take_scaling(const char *name, const json_t *section, json_t *scaling,
                        struct error *error)
{
    const json_t *type = value_of(section, "rope_type");

    if (section && !json_is_object(section))
        return refuse(name, section, "only an object is", error);
    if (!type)
        type = value_of(section, "type"); /* of older files */
    if (!type && !scales_nothing(section))
        return refuse(name, section, "a rope_type is needed", error);
    if (!type || is_json(type, "\"default\""))
        return put(scaling, "type", json_string("none"), error);
    size_t count = is_json(type, "\"linear\"")   ? 1
                   : is_json(type, "\"llama3\"") ? ARRAY_COUNT(llama3_keys)
                                                 : 0;
    if (count == 0)
        return refuse(name, type, "only \"linear\" and \"llama3\" are", error);
    int status = put(scaling, "type", json_deep_copy(type), error);
    return status < 0 ? status : translate(section, llama3_keys, count, scaling, error);
}

/* transformers up to 4 writes "rope_scaling". Since 5 it writes "rope_parameters" with the base in
 * it, but still prefers "rope_scaling" when a file has both. */
static int take_rotary(const json_t *config, json_t *model, struct error *error)
{
    const json_t *theta = value_of(config, "rope_theta");
    const char *name = value_of(config, "rope_scaling") ? "rope_scaling" : "rope_parameters";
    const json_t *section = value_of(config, name);
    AUTO_JSON json_t *scaling = json_object();
    int status = check_demands(section, rope_demands, ARRAY_COUNT(rope_demands), error);

    if (status == 0)
        status = take_scaling(name, section, scaling, error);
    if (status == 0)
        status = put(model, "rope_scaling", json_incref(scaling), error);
    if (status < 0)
        return status;
    const json_t *inner = value_of(section, "rope_theta");
    if (theta && inner && json_number_value(theta) != json_number_value(inner))
        return refuse(name, section, "rope_theta beside it says something else", error);
    if (!theta)
        theta = inner;
    return put(model, "rope_theta", theta ? json_deep_copy(theta) : json_real(10000.0), error);
}

/* Set the sizes that follow from others when they are missing. */
static int take_heads(const struct relative *relative, const json_t *config, json_t *model,
                      struct error *error)
{
    const json_t *kv_heads = value_of(config, "num_key_value_heads");
    const json_t *head_width = value_of(config, "head_dim");
    json_int_t heads = json_integer_value(json_object_get(model, "heads"));
    json_int_t width = json_integer_value(json_object_get(model, "width"));
    int status =
        put(model, "kv_heads", kv_heads ? json_deep_copy(kv_heads) : json_integer(heads), error);

    if (status < 0)
        return status;
    if (!head_width && relative->head_width > 0)
        return put(model, "head_width", json_integer(relative->head_width), error);
    if (!head_width && (heads < 1 || width % heads != 0))
        return error_set(error, -EINVAL,
                         "config.json: num_attention_heads do not divide hidden_size, and there is "
                         "no head_dim");
    return put(model, "head_width",
               head_width ? json_deep_copy(head_width) : json_integer(width / heads), error);
}

static int gpt2_model(const json_t *config, json_t *model, struct error *error)
{
    const json_t *inner = value_of(config, "n_inner");
    int status = check_demands(config, gpt2_demands, ARRAY_COUNT(gpt2_demands), error);

    if (status == 0)
        status = translate(config, gpt2_keys, ARRAY_COUNT(gpt2_keys), model, error);
    if (status == 0 && inner)
        status = put(model, "hidden", json_deep_copy(inner), error);
    return status;
}

static const struct relative *find_relative(const char *type)
{
    for (size_t i = 0; i < ARRAY_COUNT(relatives); i++)
        if (strcmp(relatives[i].type, type) == 0)
            return &relatives[i];
    return NULL;
}

/* A sliding window that is not shorter than a sample is full attention; a shorter one is
 * refused. */
static int check_window(const struct relative *relative, const json_t *config, unsigned context,
                        struct error *error)
{
    const char *key = "sliding_window";
    const json_t *window = json_object_get(config, key);
    AUTO_JSON json_t *usual = NULL;
    char what[96];

    if (!relative->window_json ||
        (relative->window_asked && !json_is_true(json_object_get(config, "use_sliding_window"))))
        return 0;
    if (!window)
        window = usual = json_loads(relative->window_json, JSON_DECODE_ANY, NULL);
    if (json_is_null(window) || (json_is_integer(window) && json_integer_value(window) >= context))
        return 0;
    snprintf(what, sizeof(what), "only a window of at least model.context (%u) is", context);
    return refuse(key, window, what, error);
}

static int llama_model(const struct relative *relative, const json_t *config, unsigned context,
                       json_t *model, struct error *error)
{
    int status = check_demands(config, llama_demands, ARRAY_COUNT(llama_demands), error);

    if (status == 0)
        status = check_window(relative, config, context, error);
    if (status == 0)
        status = put(model, "qkv_bias", json_boolean(relative->qkv_bias), error);
    if (status == 0)
        status = put(model, "qk_norm", json_boolean(relative->qk_norm), error);
    if (status == 0)
        status = translate(config, llama_keys, ARRAY_COUNT(llama_keys), model, error);
    if (status == 0)
        status = take_rotary(config, model, error);
    return status < 0 ? status : take_heads(relative, config, model, error);
}

int huggingface_model(const json_t *config, unsigned context, json_t **ret_keys,
                      struct error *error)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const struct relative *relative = type ? find_relative(type) : NULL;
    AUTO_JSON json_t *model = json_object();
    int status;

    if (!type)
        return error_set(error, -EINVAL, "config.json: model_type is missing");
    status = put(model, "family", json_string(relative ? "llama" : type), error);
    if (status < 0)
        return status;
    if (strcmp(type, "gpt2") == 0)
        status = gpt2_model(config, model, error);
    else if (relative)
        status = llama_model(relative, config, context, model, error);
    else
        status = refuse("model_type", json_object_get(config, "model_type"),
                        "only gpt2, llama, mistral, qwen2 and qwen3 are", error);
    if (status == 0)
        *ret_keys = json_incref(model);
    return status;
}

int huggingface_check_positions(const json_t *config, unsigned context, struct error *error)
{
    const char *key = "max_position_embeddings";
    const json_t *positions = value_of(config, key);
    char what[160];

    if (!positions || (json_is_integer(positions) && json_integer_value(positions) >= context))
        return 0;
    snprintf(
        what, sizeof(what),
        "only at least model.context (%u) is: lower that, or raise this if the model is to learn "
        "the positions behind",
        context);
    return refuse(key, positions, what, error);
}

/* Return whether two values are equal; 1e4 and 10000 are equal. */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        return x <= y && x >= y;
    }
    return json_equal(a, b);
}

/* Compare one value. @here is NULL when the job has no such key: the default applies. */
static int agree_on(const char *path, const json_t *here, const json_t *value, struct error *error)
{
    const struct schema_key *schema = !here ? schema_find(path) : NULL;
    AUTO_JSON json_t *usual = schema && schema->default_json
                                  ? json_loads(schema->default_json, JSON_DECODE_ANY, NULL)
                                  : NULL;
    const json_t *found = here ? here : usual;
    if (same(found, value))
        return 0;
    AUTO_FREE char *ours = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
    AUTO_FREE char *theirs = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    return error_set(error, -EINVAL, "%s: %.80s here, %.80s in config.json", path,
                     ours ? ours : "nothing", theirs ? theirs : "?");
}

static int agree_below(const char *path, const json_t *keys, const json_t *section,
                       struct error *error)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)keys, key, value)
    {
        const json_t *here = json_object_get(section, key);
        char below[KEY_PATH_SIZE];
        snprintf(below, sizeof(below), "%s.%s", path, key);
        int status = schema_has_section(below) ? agree_below(below, value, here, error)
                                               : agree_on(below, here, value, error);
        if (status < 0)
            return status;
    }
    return 0;
}

int huggingface_agree(const json_t *keys, const json_t *section, struct error *error)
{
    return agree_below("model", keys, section, error);
}
