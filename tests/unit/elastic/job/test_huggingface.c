/* Tests of config.json in both directions, and of the files that firn refuses. */
#include "elastic/job/huggingface.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "elastic/job/job_spec.h"

#define CONTEXT 64

static json_t *parse(const char *text)
{
    AUTO_FREE char *copy = strdup(text);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    json_t *tree = json_loads(copy, 0, NULL);
    assert_non_null(tree);
    return tree;
}

static void expect_keys(const char *config_text, const char *keys_text)
{
    struct error error = {0};
    AUTO_JSON json_t *config = parse(config_text);
    AUTO_JSON json_t *wanted = parse(keys_text);
    AUTO_JSON json_t *keys = NULL;
    if (huggingface_model(config, CONTEXT, &keys, &error) != 0)
        fail_msg("%s", error.text);
    AUTO_FREE char *found = json_text_sorted(keys);
    AUTO_FREE char *expected = json_text_sorted(wanted);
    assert_string_equal(found, expected);
}

static void expect_refused(const char *base, const char *change, const char *text)
{
    struct error error = {0};
    AUTO_JSON json_t *config = parse(base);
    AUTO_JSON json_t *changed = parse(change);
    AUTO_JSON json_t *keys = NULL;
    assert_int_equal(json_object_update(config, changed), 0);
    assert_int_equal(huggingface_model(config, CONTEXT, &keys, &error), -EINVAL);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

#define GPT2                                                                                       \
    "{'model_type':'gpt2','n_layer':2,'n_embd':8,'n_head':2,'n_positions':16,'vocab_size':256,"    \
    "'activation_function':'gelu_new','layer_norm_epsilon':1e-05,'n_inner':null}"
#define LLAMA                                                                                      \
    "{'model_type':'llama','num_hidden_layers':2,'hidden_size':32,'num_attention_heads':4,"        \
    "'num_key_value_heads':2,'head_dim':10,'intermediate_size':50,'vocab_size':256,"               \
    "'hidden_act':'silu','rms_norm_eps':1e-06,'rope_theta':500000.0,'rope_scaling':null,"          \
    "'attention_bias':false,'max_position_embeddings':2048,'tie_word_embeddings':true}"

static void test_gpt2(void **state)
{
    (void)state;
    expect_keys(GPT2, "{'family':'gpt2','layers':2,'width':8,'heads':2,'context':16,'vocab':256,"
                      "'norm_epsilon':1e-5,'tied':true}");
}

static void test_llama(void **state)
{
    (void)state;
    expect_keys(
        LLAMA,
        "{'family':'llama','layers':2,'width':32,'heads':4,'kv_heads':2,"
        "'head_width':10,'hidden':50,'vocab':256,'norm_epsilon':1e-6,"
        "'rope_theta':500000.0,'rope_scaling':{'type':'none'},'qkv_bias':false,'qk_norm':false,'tied':true}");
}

/* Files as transformers writes them today, and older files with fewer keys. */
static void test_llama_of_other_versions(void **state)
{
    (void)state;
    expect_keys("{'model_type':'llama','num_hidden_layers':2,'hidden_size':32,"
                "'num_attention_heads':4,'intermediate_size':50,'vocab_size':256,"
                "'rope_parameters':{'rope_type':'default','rope_theta':77.0}}",
                "{'family':'llama','layers':2,'width':32,'heads':4,'kv_heads':4,'head_width':8,"
                "'hidden':50,'vocab':256,'norm_epsilon':1e-6,'rope_theta':77.0,"
                "'rope_scaling':{'type':'none'},'qkv_bias':false,'qk_norm':false,'tied':false}");
}

static void expect_scaling(const char *change, const char *theta_and_scaling)
{
    struct error error = {0};
    AUTO_JSON json_t *config = parse(LLAMA);
    AUTO_JSON json_t *changed = parse(change);
    AUTO_JSON json_t *wanted = parse(theta_and_scaling);
    AUTO_JSON json_t *keys = NULL;
    assert_int_equal(json_object_update(config, changed), 0);
    if (huggingface_model(config, CONTEXT, &keys, &error) != 0)
        fail_msg("%s", error.text);
    assert_true(json_equal(json_object_get(keys, "rope_theta"), json_object_get(wanted, "theta")));
    assert_true(json_equal(json_object_get(keys, "rope_scaling"), json_object_get(wanted, "rope")));
}

#define LLAMA3_THEIRS                                                                              \
    "'factor':32.0,'low_freq_factor':1.0,'high_freq_factor':4.0,"                                  \
    "'original_max_position_embeddings':8192"
#define LLAMA3_OURS                                                                                \
    "{'type':'llama3','factor':32.0,'low_frequency_factor':1.0,'high_frequency_factor':4.0,"       \
    "'original_context':8192}"

/* Llama 3.2 as published, as transformers 5 writes it again, and as older files have it. */
static void test_scaled_rotary_embeddings(void **state)
{
    (void)state;
    expect_scaling("{'rope_scaling':{'rope_type':'llama3'," LLAMA3_THEIRS "}}",
                   "{'theta':500000.0,'rope':" LLAMA3_OURS "}");
    expect_scaling("{'rope_theta':null,'rope_parameters':{'rope_type':'llama3','rope_theta':7.0,"
                   "" LLAMA3_THEIRS "}}",
                   "{'theta':7.0,'rope':" LLAMA3_OURS "}");
    expect_scaling("{'rope_scaling':{'type':'linear','factor':2.0}}",
                   "{'theta':500000.0,'rope':{'type':'linear','factor':2.0}}");
    expect_scaling("{'rope_scaling':{'type':'linear','factor':2.0},"
                   "'rope_parameters':{'rope_type':'default'}}",
                   "{'theta':500000.0,'rope':{'type':'linear','factor':2.0}}");
    expect_scaling("{'rope_scaling':{'rope_type':'default'}}",
                   "{'theta':500000.0,'rope':{'type':'none'}}");
}

#define RELATIVE(type, more)                                                                       \
    "{'model_type':'" type "','num_hidden_layers':2,'hidden_size':32,'num_attention_heads':4,"     \
    "'num_key_value_heads':2,'intermediate_size':50,'vocab_size':256,'hidden_act':'silu',"         \
    "'rms_norm_eps':1e-06,'rope_theta':1000000.0,'tie_word_embeddings':false" more "}"
#define RELATIVE_KEYS(own)                                                                         \
    "{'family':'llama','layers':2,'width':32,'heads':4,'kv_heads':2,'hidden':50,'vocab':256,"      \
    "'norm_epsilon':1e-6,'rope_theta':1000000.0,'rope_scaling':{'type':'none'},'tied':false," own  \
    "}"
#define MISTRAL_KEYS RELATIVE_KEYS("'qkv_bias':false,'qk_norm':false,'head_width':8")
#define QWEN2_KEYS   RELATIVE_KEYS("'qkv_bias':true,'qk_norm':false,'head_width':8")

/* Qwen2.5, Mistral 7B and Qwen3 as published. */
static void test_relatives(void **state)
{
    (void)state;
    expect_keys(RELATIVE("qwen2", ",'use_sliding_window':false,'sliding_window':32"), QWEN2_KEYS);
    expect_keys(RELATIVE("qwen2", ""), QWEN2_KEYS);
    expect_keys(RELATIVE("mistral", ",'sliding_window':null"), MISTRAL_KEYS);
    expect_keys(RELATIVE("mistral", ",'sliding_window':64"), MISTRAL_KEYS);
    expect_keys(RELATIVE("mistral", ""), MISTRAL_KEYS); /* 4096, the default of its class */
    expect_keys(RELATIVE("qwen3", ",'head_dim':64,'attention_bias':false"),
                RELATIVE_KEYS("'qkv_bias':false,'qk_norm':true,'head_width':64"));
    expect_keys(RELATIVE("qwen3", ""), /* the default of its class */
                RELATIVE_KEYS("'qkv_bias':false,'qk_norm':true,'head_width':128"));
}

/* A sample has CONTEXT tokens. */
static void test_windows_below_the_context_are_refused(void **state)
{
    (void)state;
    expect_refused(RELATIVE("mistral", ""), "{'sliding_window':63}",
                   "sliding_window: 63 is not supported; only a window of at least model.context "
                   "(64) is");
    expect_refused(RELATIVE("mistral", ""), "{'sliding_window':'64'}", "sliding_window: \"64\"");
    expect_refused(RELATIVE("qwen3", ""), "{'attention_bias':true}", "attention_bias: true");
    expect_refused(RELATIVE("qwen2", ",'use_sliding_window':true"), "{'sliding_window':32}",
                   "sliding_window: 32");
}

static int check_positions(const char *config_text, struct error *error)
{
    AUTO_JSON json_t *config = parse(config_text);
    return huggingface_check_positions(config, CONTEXT, error);
}

static void test_a_context_behind_the_positions_is_refused(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(check_positions("{}", &error), 0);
    assert_int_equal(check_positions("{'max_position_embeddings':64}", &error), 0);
    assert_int_equal(check_positions("{'max_position_embeddings':63}", &error), -EINVAL);
    assert_non_null(strstr(error.text, "max_position_embeddings: 63 is not supported; only at "
                                       "least model.context (64) is: lower that"));
}

static void test_what_is_not_computed_is_refused(void **state)
{
    (void)state;
    expect_refused(LLAMA, "{'attention_bias':true}", "attention_bias: true is not supported");
    expect_refused(LLAMA, "{'mlp_bias':true}", "mlp_bias: true");
    expect_refused(LLAMA, "{'hidden_act':'gelu'}", "hidden_act: \"gelu\"");
    expect_refused(LLAMA, "{'rope_scaling':{'rope_type':'llama3','factor':8.0}}",
                   "low_freq_factor is missing");
    expect_refused(
        LLAMA, "{'rope_scaling':{'type':'dynamic','factor':2.0}}",
        "rope_scaling: \"dynamic\" is not supported; only \"linear\" and \"llama3\" are");
    expect_refused(LLAMA, "{'rope_scaling':'llama3'}", "rope_scaling: \"llama3\"");
    expect_refused(LLAMA, "{'rope_scaling':{'factor':8.0}}", "a rope_type is needed");
    expect_refused(LLAMA, "{'rope_theta':5.0,'rope_parameters':{'rope_theta':7.0}}",
                   "rope_theta beside it");
    expect_refused(LLAMA, "{'rope_scaling':{'rope_type':'longrope'}}",
                   "rope_scaling: \"longrope\"");
    expect_refused(LLAMA, "{'rope_parameters':{'rope_type':'yarn'}}", "rope_parameters: \"yarn\"");
    expect_refused(LLAMA, "{'rope_parameters':{'partial_rotary_factor':0.5}}",
                   "partial_rotary_factor: 0.5");
    expect_refused(LLAMA, "{'model_type':'gemma'}", "model_type: \"gemma\"");
    expect_refused(LLAMA, "{'hidden_size':null}", "hidden_size is missing");
    expect_refused(LLAMA, "{'head_dim':null,'num_attention_heads':5}", "head_dim");
    expect_refused(GPT2, "{'activation_function':'relu'}", "activation_function: \"relu\"");
    expect_refused(GPT2, "{'scale_attn_by_inverse_layer_idx':true}", "inverse_layer_idx");
    expect_refused(GPT2, "{'n_layer':null}", "n_layer is missing");
}

static void expect_round_trip(const char *model)
{
    char text[512];
    static struct job_spec spec;
    struct error error = {0};
    snprintf(text, sizeof(text), "{'name':'x','model':%s,'data':{'path':'/d'},'train':{'steps':1}}",
             model);
    AUTO_JSON json_t *tree = parse(text);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error) != 0)
        fail_msg("%s", error.text);
    AUTO_JSON json_t *config = huggingface_config(&spec.model, true);
    AUTO_JSON json_t *keys = NULL;
    AUTO_JSON json_t *encoded = job_spec_encode(&spec);
    assert_int_equal(huggingface_model(config, CONTEXT, &keys, &error), 0);
    assert_int_equal(huggingface_agree(keys, json_object_get(encoded, "model"), &error), 0);
    json_object_set_new(json_object_get(encoded, "model"), "layers", json_integer(7));
    assert_int_equal(huggingface_agree(keys, json_object_get(encoded, "model"), &error), -EINVAL);
    assert_non_null(strstr(error.text, "model.layers: 7 here, 3 in config.json"));
}

#define SMALL_LLAMA "{'family':'llama','layers':3,'width':32,'heads':4,'context':16"

static void test_what_is_written_is_read_again(void **state)
{
    (void)state;
    expect_round_trip("{'layers':3,'width':32,'heads':4,'context':16}");
    expect_round_trip("{'family':'llama','layers':3,'width':32,'heads':4,'kv_heads':2,"
                      "'head_width':10,'hidden':50,'context':16,'rope_theta':123456.5,"
                      "'norm_epsilon':1e-6}");
    expect_round_trip(SMALL_LLAMA ",'qkv_bias':true,'kv_heads':2}");
    expect_round_trip(SMALL_LLAMA ",'qk_norm':true,'head_width':10}");
    expect_round_trip(SMALL_LLAMA ",'rope_scaling':{'type':'linear','factor':2.5}}");
    expect_round_trip(SMALL_LLAMA ",'rope_scaling':{'type':'llama3','factor':8,"
                                  "'low_frequency_factor':2,'high_frequency_factor':3,"
                                  "'original_context':4096}}");
}

/* A key that the job does not set has its default value: a folder with another value is refused. */
static void test_defaults_must_agree(void **state)
{
    (void)state;
    struct error error = {0};
    AUTO_JSON json_t *keys = parse("{'rope_scaling':{'type':'linear','factor':2.0}}");
    AUTO_JSON json_t *plain = parse("{'rope_scaling':{'type':'none'}}");
    AUTO_JSON json_t *nothing = parse("{}");
    assert_int_equal(huggingface_agree(plain, nothing, &error), 0);
    assert_int_equal(huggingface_agree(keys, nothing, &error), -EINVAL);
    assert_string_equal(error.text,
                        "model.rope_scaling.type: \"none\" here, \"linear\" in config.json");
    assert_int_equal(huggingface_agree(keys, plain, &error), -EINVAL);
    assert_int_equal(huggingface_agree(plain, keys, &error), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_llama_of_other_versions),
        cmocka_unit_test(test_scaled_rotary_embeddings),
        cmocka_unit_test(test_relatives),
        cmocka_unit_test(test_windows_below_the_context_are_refused),
        cmocka_unit_test(test_a_context_behind_the_positions_is_refused),
        cmocka_unit_test(test_what_is_not_computed_is_refused),
        cmocka_unit_test(test_what_is_written_is_read_again),
        cmocka_unit_test(test_defaults_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
