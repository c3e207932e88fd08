#include <string.h>

#include "base/json.h"
#include "elastic/job/huggingface.h"

#define END_OF_TEXT 50256

static json_t *gpt2_config(const struct job_model *model)
{
    /* GPT-2's end of text; for a smaller vocabulary the keys must be null. */
    bool ends = model->vocab > END_OF_TEXT;
    json_t *config = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f}", "architectures",
        "GPT2LMHeadModel", "model_type", "gpt2", "n_layer", (int)model->layers, "n_embd",
        (int)model->width, "n_head", (int)model->heads, "n_positions", (int)model->context, "n_ctx",
        (int)model->context, "vocab_size", (int)model->vocab, "activation_function", "gelu_new",
        "layer_norm_epsilon", 1e-5, "initializer_range", 0.02, "resid_pdrop", 0.0, "embd_pdrop",
        0.0, "attn_pdrop", 0.0);
    json_t *end = ends ? json_integer(END_OF_TEXT) : json_null();

    if (json_object_set(config, "bos_token_id", end) ||
        json_object_set(config, "eos_token_id", end)) {
        json_decref(config);
        config = NULL;
    }
    json_decref(end);
    return config;
}

static json_t *rope_scaling(const struct job_rope_scaling *scaling)
{
    double factor = scaling->factor;
    switch (scaling->type) {
    case JOB_ROPE_PLAIN:
        break;
    case JOB_ROPE_LINEAR:
        return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", factor);
    case JOB_ROPE_LLAMA3:
        return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", factor,
                         "low_freq_factor", scaling->low_frequency_factor, "high_freq_factor",
                         scaling->high_frequency_factor, "original_max_position_embeddings",
                         (int)scaling->original_context);
    }
    return json_null();
}

/* Hugging Face model types of the llama family. */
static const struct kind {
    const char *type, *class;
    const char *off; /* a key of this type alone, written as false */
} llama = {"llama", "LlamaForCausalLM", "attention_bias"},
  qwen2 = {"qwen2", "Qwen2ForCausalLM", "use_sliding_window"},
  qwen3 = {"qwen3", "Qwen3ForCausalLM", "attention_bias"};

static const struct kind *kind_of(const struct job_model *model)
{
    if (model->qk_norm)
        return &qwen3;
    return model->qkv_bias ? &qwen2 : &llama;
}

static json_t *llama_config(const struct job_model *model)
{
    const struct kind *kind = kind_of(model);
    return json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:b, "
        "s:b, s:f, s:o, s:n, s:n}",
        "architectures", kind->class, "model_type", kind->type, "num_hidden_layers",
        (int)model->layers, "hidden_size", (int)model->width, "num_attention_heads",
        (int)model->heads, "num_key_value_heads", (int)model->kv_heads, "head_dim",
        (int)model->head_width, "intermediate_size", (int)model->hidden, "max_position_embeddings",
        (int)model->context, "vocab_size", (int)model->vocab, "hidden_act", "silu", "rms_norm_eps",
        model->norm_epsilon, "rope_theta", model->rope_theta, "initializer_range", 0.02, kind->off,
        0, "mlp_bias", 0, "attention_dropout", 0.0, "rope_scaling",
        rope_scaling(&model->rope_scaling), "bos_token_id", "eos_token_id");
}

json_t *huggingface_config(const struct job_model *model, bool tied)
{
    json_t *config = job_model_is_llama(model) ? llama_config(model) : gpt2_config(model);

    if (json_object_set_new(config, "tie_word_embeddings", json_boolean(tied)) ||
        json_object_set_new(config, "torch_dtype", json_string("float32"))) {
        json_decref(config);
        return NULL;
    }
    return config;
}

/* Return the class for the source's model_type, whose files a checkpoint has, regardless of the
 * class that saved the source; NULL: unknown model_type. */
static const char *class_of(const json_t *source)
{
    static const struct {
        const char *type, *class;
    } classes[] = {{"gpt2", "GPT2LMHeadModel"},
                   {"llama", "LlamaForCausalLM"},
                   {"mistral", "MistralForCausalLM"},
                   {"qwen2", "Qwen2ForCausalLM"},
                   {"qwen3", "Qwen3ForCausalLM"}};
    const char *type = json_string_value(json_object_get(source, "model_type"));

    for (size_t i = 0; type && i < ARRAY_COUNT(classes); i++)
        if (!strcmp(type, classes[i].type))
            return classes[i].class;
    return NULL;
}

/* Keep only the last component, so that a published model does not reveal paths of the job's
 * machines. */
static json_t *last_part(const char *path)
{
    size_t end = strlen(path), begin;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    return end > begin ? json_stringn(path + begin, end - begin) : json_string("model");
}

json_t *huggingface_adopt(const json_t *source, const json_t *own, const char *name)
{
    /* Keys that describe the source's files: their types, and code in the source's folder. */
    static const char *const of_files[] = {"dtype", "quantization_config", "auto_map"};
    static const char *const decided[] = {"tie_word_embeddings", "torch_dtype"};
    const char *class = class_of(source);
    AUTO_JSON json_t *config = json_deep_copy(source);

    for (size_t i = 0; config && i < ARRAY_COUNT(of_files); i++)
        json_object_del(config, of_files[i]);
    for (size_t i = 0; config && i < ARRAY_COUNT(decided); i++)
        if (json_object_set(config, decided[i], json_object_get(own, decided[i])))
            return NULL;
    if (!config || (class && json_object_set_new(config, "architectures", json_pack("[s]", class))))
        return NULL;
    return json_object_set_new(config, "_name_or_path", last_part(name)) ? NULL
                                                                         : json_incref(config);
}

const char *huggingface_adopted(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "_name_or_path"));

    return name && name[0] ? name : NULL;
}
