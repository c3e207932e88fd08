/* Tests of job files: accepted files, the error for every mistake, and the derived numbers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "elastic/job/job_schema.h"
#include "elastic/job/job_spec.h"

static const char minimal[] =
    "{'name':'demo','model':{'layers':6,'width':128,'heads':4,'context':64},"
    "'data':{'path':'/data/*.txt'},'train':{'steps':100}}";

static json_t *parse(const char *text)
{
    AUTO_FREE char *copy = strdup(text);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    json_t *tree = json_loads(copy, JSON_DECODE_ANY, NULL);
    assert_non_null(tree);
    return tree;
}

/* Set the value at a dotted path and create the sections on the way; NULL deletes. */
static void put(json_t *tree, const char *path, json_t *value)
{
    const char *last = schema_last_word(path);
    while (path < last) {
        size_t length = strcspn(path, ".");
        if (!json_object_getn(tree, path, length))
            assert_int_equal(json_object_setn_new(tree, path, length, json_object()), 0);
        tree = json_object_getn(tree, path, length);
        path += length + 1;
    }
    if (!value)
        json_object_del(tree, last);
    else
        assert_int_equal(json_object_set_new(tree, last, value), 0);
}

static struct job_spec spec; /* too large for the stack of a test */

static int decode(const json_t *tree, struct error *error)
{
    memset(error, 0, sizeof(*error));
    return job_spec_decode(tree, "demo.yaml", NULL, NULL, &spec, error);
}

static void test_defaults(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    assert_int_equal(decode(tree, &error), 0);
    assert_string_equal(spec.name, "demo");
    assert_string_equal(spec.model.family, "gpt2");
    assert_int_equal(spec.model.vocab, 256);
    assert_true(spec.model.tied);
    assert_int_equal(spec.model.kv_heads, spec.model.heads);
    assert_int_equal(spec.model.head_width * spec.model.heads, spec.model.width);
    assert_int_equal(spec.model.hidden, 4 * spec.model.width);
    assert_true(spec.model.norm_epsilon == 1e-5);
    assert_int_equal(spec.data.format, JOB_FORMAT_BYTES);
    assert_int_equal(spec.data.path.count, 1);
    assert_string_equal(spec.data.path.paths[0], "/data/*.txt");
    assert_true(spec.data.validation_share == 0 && spec.data.validation_path[0] == '\0');
    assert_int_equal(spec.train.lanes, 8);
    assert_int_equal(spec.train.micro_batch, 4);
    assert_int_equal(spec.train.micro_batches_per_lane, 1);
    assert_int_equal(spec.train.seed, 1);
    assert_string_equal(spec.train.optimizer.name, "adamw");
    assert_true(spec.train.optimizer.lr == 3e-4);
    assert_true(spec.train.optimizer.beta1 == 0.9 && spec.train.optimizer.beta2 == 0.95);
    assert_true(spec.train.optimizer.epsilon == 1e-8);
    assert_true(spec.train.optimizer.weight_decay == 0.1);
    assert_int_equal(spec.train.optimizer.warmup, 0);
    assert_int_equal(spec.train.optimizer.schedule, JOB_SCHEDULE_COSINE);
    assert_true(spec.train.optimizer.clip == 1.0);
    assert_int_equal(spec.elastic.devices_min, 1);
    assert_int_equal(spec.elastic.devices_max, 64);
    assert_int_equal(spec.elastic.freeze.policy, JOB_FREEZE_NONE);
    assert_true(spec.elastic.freeze.alpha == 0.33);
    assert_int_equal(spec.elastic.freeze.every, 100);
    assert_int_equal(spec.elastic.freeze.keep_active, 1);
    assert_string_equal(spec.checkpoint.path, "");
    assert_int_equal(spec.checkpoint.every, 0);
    assert_int_equal(spec.checkpoint.keep, 2);
    assert_int_equal(spec.checkpoint.copies, 1);
    assert_string_equal(spec.checkpoint.object_bucket, "");
    assert_int_equal(spec.checkpoint.object_keep, 3);
    assert_int_equal(spec.evaluate.every, 0);
    assert_int_equal(spec.evaluate.batches, JOB_BATCHES_AUTO);
}

static void test_defaults_that_follow_from_other_keys(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "evaluate.every", json_integer(10));
    put(tree, "data.format", json_string("llmc"));
    put(tree, "elastic.devices.min", json_integer(100));
    assert_int_equal(decode(tree, &error), 0);
    assert_true(spec.data.validation_share == 0.1);
    assert_int_equal(spec.model.vocab, 50257);
    assert_int_equal(spec.elastic.devices_max, 100);
}

static void test_every_form_of_a_value(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "data.path", parse("['/a','/b']"));
    put(tree, "data.validation", json_string("/v"));
    put(tree, "train.steps", json_real(1e4));
    put(tree, "train.optimizer.clip", json_integer(0));
    put(tree, "train.optimizer.betas", parse("[0,0.999]"));
    put(tree, "checkpoint", json_null()); /* "checkpoint:" with nothing below it */
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.data.path.count, 2);
    assert_string_equal(spec.data.path.paths[1], "/b");
    assert_string_equal(spec.data.validation_path, "/v");
    assert_int_equal(spec.train.steps, 10000);
    assert_true(spec.train.optimizer.clip == 0);
    assert_true(spec.train.optimizer.beta1 == 0 && spec.train.optimizer.beta2 == 0.999);
    assert_int_equal(spec.checkpoint.keep, 2);
}

static void test_llama(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "model.family", json_string("llama"));
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.model.kv_heads, spec.model.heads);
    assert_int_equal(spec.model.hidden, 384); /* 8/3 of 128 is 342 */
    assert_true(spec.model.rope_theta == 10000 && spec.model.norm_epsilon == 1e-5);
    put(tree, "model.heads", json_integer(6)); /* do not divide 128 */
    put(tree, "model.kv_heads", json_integer(2));
    put(tree, "model.head_width", json_integer(20));
    put(tree, "model.hidden", json_integer(77));
    put(tree, "model.rope_theta", json_integer(500000));
    put(tree, "model.norm_epsilon", json_real(1e-6));
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.model.kv_heads, 2);
    assert_int_equal(spec.model.head_width, 20);
    assert_int_equal(spec.model.hidden, 77);
    assert_true(spec.model.rope_theta == 500000 && spec.model.norm_epsilon == 1e-6);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "data.path", parse("['/a','/b']"));
    put(tree, "data.validation", json_string("/v"));
    put(tree, "train.seed", json_integer(9007199254740991));
    put(tree, "train.optimizer.schedule", json_string("linear"));
    put(tree, "elastic.freeze.alpha", json_real(0.1));
    assert_int_equal(decode(tree, &error), 0);
    static struct job_spec first;
    first = spec;
    AUTO_JSON json_t *encoded = job_spec_encode(&spec);
    AUTO_FREE char *text = json_text(encoded);
    AUTO_JSON json_t *again = json_loads(text, 0, NULL);
    assert_int_equal(decode(again, &error), 0);
    assert_memory_equal(&first, &spec, sizeof(spec));
    AUTO_JSON json_t *encoded_again = job_spec_encode(&spec);
    assert_true(json_equal(encoded, encoded_again));
}

/*
 * Assert that the value of each old key of the schema is encoded. Young keys: none, or with @but
 * all except @but.
 */
static void assert_encoded(const char *but)
{
    AUTO_JSON json_t *encoded = job_spec_encode(&spec);
    for (unsigned i = 0; i < job_schema_count; i++) {
        const json_t *at = encoded;
        for (const char *word = job_schema[i].path; *word != '\0';) {
            size_t length = strcspn(word, ".");
            at = json_object_getn(at, word, length);
            word += length + (word[length] == '.');
        }
        bool omitted = but && strcmp(job_schema[i].path, but) != 0;
        assert_int_equal(at != NULL, omitted || !job_schema[i].omit_if_default);
    }
}

/*
 * The encoding has "every key explicit", except for keys that an older program would refuse and
 * does not need.
 */
static void test_encoding_has_every_key(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    assert_int_equal(decode(tree, &error), 0);
    assert_encoded(NULL);
    put(tree, "train.on_nan", json_string("skip"));
    put(tree, "model.family", json_string("llama"));
    put(tree, "model.rope_scaling",
        parse("{'type':'llama3','factor':8,'low_frequency_factor':2,'high_frequency_factor':3,"
              "'original_context':4096}"));
    put(tree, "data.mask", json_string("/m"));
    put(tree, "data.validation", json_string("/v"));
    put(tree, "data.validation_mask", json_string("/vm"));
    put(tree, "evaluate.batches", json_string("all"));
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.evaluate.batches, JOB_BATCHES_ALL);
    put(tree, "train.optimizer.min_lr_factor", json_integer(0));
    put(tree, "model.qkv_bias", json_true());
    put(tree, "elastic.pipeline", json_string("1f1b"));
    put(tree, "elastic.freeze.guard", json_real(0.02));
    put(tree, "elastic.freeze.thaw", json_real(0.1));
    put(tree, "elastic.freeze.tolerance", json_real(0.1));
    put(tree, "elastic.freeze.patience", json_integer(2));
    put(tree, "elastic.freeze.budget", json_real(0.9));
    put(tree, "elastic.freeze.policy", json_string("gradient"));
    put(tree, "evaluate.every", json_integer(10));
    assert_int_equal(decode(tree, &error), 0);
    assert_encoded("model.qk_norm");
    put(tree, "model.qkv_bias", NULL);
    put(tree, "model.qk_norm", json_true());
    assert_int_equal(decode(tree, &error), 0);
    assert_encoded("model.qkv_bias");
}

static unsigned line_of(void *context, const char *key_path)
{
    (void)context;
    if (strcmp(key_path, "train.lanes") == 0)
        return 12;
    return strcmp(key_path, "model") == 0 ? 3 : 0;
}

static void assert_refused(const char *path, const char *value, const char *expected)
{
    struct error error = {0};
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, path, value ? parse(value) : NULL);
    memset(&spec, 7, sizeof(spec));
    assert_int_equal(job_spec_decode(tree, "demo.yaml", line_of, NULL, &spec, &error), -EINVAL);
    assert_int_equal(error.code, -EINVAL);
    assert_int_equal(spec.name[0], 7); /* untouched */
    if (strcmp(error.text, expected) != 0)
        fail_msg("\n  said:     %s\n  expected: %s", error.text, expected);
}

static void test_buckets(void **state)
{
    (void)state;
    static const char *const good[] = {"abc", "a.b-c", "0a9"};
    static const char *const bad[] = {"ab", "Abc", "a_b", "-ab", "ab.", "a/b", "a b"};
    struct error error;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        AUTO_JSON json_t *tree = parse(minimal);
        put(tree, "checkpoint.object.bucket", json_string(good[i]));
        assert_int_equal(decode(tree, &error), 0);
        assert_string_equal(spec.checkpoint.object_bucket, good[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        AUTO_JSON json_t *tree = parse(minimal);
        put(tree, "checkpoint.object.bucket", json_string(bad[i]));
        assert_int_equal(job_spec_decode(tree, "demo.yaml", NULL, NULL, &spec, &error), -EINVAL);
        assert_non_null(strstr(error.text, "needs a bucket's name (3 to 63 of a-z 0-9 . -"));
    }
}

static void test_messages_say_where_what_and_what_is_allowed(void **state)
{
    (void)state;
    assert_refused("train.lanes", "5000",
                   "demo.yaml:12: train.lanes: found 5000; needs a whole number from 1 to 1024");
    assert_refused("train.lanes", "0",
                   "demo.yaml:12: train.lanes: found 0; needs a whole number from 1 to 1024");
    assert_refused("train.lanes", "2.5",
                   "demo.yaml:12: train.lanes: found 2.5; needs a whole number from 1 to 1024");
    assert_refused("train.lanes", "'many'",
                   "demo.yaml:12: train.lanes: found the text \"many\"; needs a whole number from "
                   "1 to 1024");
    assert_refused("train.lanes", "null",
                   "demo.yaml:12: train.lanes: found nothing; needs a whole number from 1 to 1024");
    assert_refused("train.seed", "-1",
                   "demo.yaml: train.seed: found -1; needs a whole number from 0 to "
                   "9007199254740991");
    assert_refused("model.layers", NULL,
                   "demo.yaml:3: model.layers: is missing; needs a whole number from 1 to 256 "
                   "(transformer blocks)");
    assert_refused("model.tied", "'yes'",
                   "demo.yaml:3: model.tied: found the text \"yes\"; needs true or false");
    assert_refused("train.optimizer.lr", "0",
                   "demo.yaml: train.optimizer.lr: found 0; needs a number above 0, at most 10");
    assert_refused("train.optimizer.betas", "[0.9]",
                   "demo.yaml: train.optimizer.betas: found [0.9]; needs a list of two numbers, "
                   "each at least 0, below 1");
    assert_refused("train.optimizer.betas", "[0.9,1]",
                   "demo.yaml: train.optimizer.betas: found [0.9,1]; needs a list of two numbers, "
                   "each at least 0, below 1");
    assert_refused("train.optimizer.betas", "[0.9,0.99999999]",
                   "demo.yaml: train.optimizer.betas: [0.9, 0.99999999] has a 1 in 32 bits");
    assert_refused("train.optimizer.eps", "1e-46",
                   "demo.yaml: train.optimizer.eps: 1e-46 is 0 in 32 bits");
    assert_refused("train.optimizer.schedule", "'cosin'",
                   "demo.yaml: train.optimizer.schedule: found the text \"cosin\"; needs constant, "
                   "cosine or linear");
    assert_refused("model.family", "'bert'",
                   "demo.yaml:3: model.family: found the text \"bert\"; needs gpt2 "
                   "or llama");
    assert_refused("data.path", "[]",
                   "demo.yaml: data.path: found []; needs a path, or a list of 1 to 32 paths");
    assert_refused("data.path", "''",
                   "demo.yaml: data.path: found the text \"\"; needs a path, or a list of 1 to 32 "
                   "paths");
    assert_refused("data.validation", "1",
                   "demo.yaml: data.validation: found 1; needs a number at least 0, below 1, or a "
                   "path");
    assert_refused("name", "'My Job'",
                   "demo.yaml: name: found the text \"My Job\"; needs a name: 1 to 63 of a-z 0-9 . "
                   "_ -, beginning with a letter or digit");
    assert_refused("model", "7",
                   "demo.yaml:3: model: found 7; needs a section with keys of its own\n"
                   "demo.yaml:3: model.layers: is missing; needs a whole number from 1 to 256 "
                   "(transformer blocks)\n"
                   "demo.yaml:3: model.width: is missing; needs a whole number from 1 to 65536 "
                   "(channels)\n"
                   "demo.yaml:3: model.heads: is missing; needs a whole number from 1 to 65536 "
                   "(heads)\n"
                   "demo.yaml:3: model.context: is missing; needs a whole number from 1 to 1048576 "
                   "(tokens)");
}

static void test_unknown_keys_are_answered_with_the_meant_one(void **state)
{
    (void)state;
    assert_refused("model.layer", "6",
                   "demo.yaml:3: model.layer: no such key; did you mean model.layers?");
    assert_refused("train.stpes", "6",
                   "demo.yaml: train.stpes: no such key; did you mean train.steps?");
    assert_refused("modle", "{}", "demo.yaml: modle: no such key; did you mean model?");
    assert_refused("train.optimiser", "{'lr':1}",
                   "demo.yaml: train.optimiser: no such key; did you mean train.optimizer?");
    assert_refused("train.lr", "0.1",
                   "demo.yaml: train.lr: no such key; did you mean train.optimizer.lr?");
    assert_refused("train.batch_size", "4",
                   "demo.yaml: train.batch_size: no such key; did you mean train.micro_batch?");
    assert_refused("model.n_embd", "4",
                   "demo.yaml:3: model.n_embd: no such key; did you mean model.width?");
    assert_refused("checkpoint.interval", "4",
                   "demo.yaml: checkpoint.interval: no such key; did you mean checkpoint.every?");
    assert_refused("evaluate.interval", "4",
                   "demo.yaml: evaluate.interval: no such key; did you mean evaluate.every?");
    assert_refused(
        "elastic.quokka", "4",
        "demo.yaml: elastic.quokka: no such key; here can be: devices, pipeline, freeze, mixed_devices, "
        "shadow, evict_stragglers");
    assert_refused("zebra", "4",
                   "demo.yaml: zebra: no such key; here can be: name, model, data, train, elastic, "
                   "checkpoint, evaluate");
}

static void test_rules_of_freezing(void **state)
{
    (void)state;
    assert_refused("elastic.freeze.keep_active", "7",
                   "demo.yaml: elastic.freeze.keep_active: 7 is more than the 6 of model.layers");
    assert_refused("elastic.freeze.policy", "'plasticity'",
                   "demo.yaml: elastic.freeze.policy: plasticity is measured in evaluations, which "
                   "evaluate.every 0 never makes: set evaluate.every");
    assert_refused("elastic.freeze", "{'policy':'budget','budget':0.3}",
                   "demo.yaml: elastic.freeze.budget: 0.3 is less than the 0.459 that a step costs "
                   "with all layers frozen but the 1 of elastic.freeze.keep_active: set that at "
                   "the least, or keep fewer layers active");
    assert_refused(
        "elastic.freeze.from_start", "6",
        "demo.yaml: elastic.freeze.from_start: 6 and the 1 of elastic.freeze.keep_active "
        "are more than the 6 of model.layers");
}

static void assert_out_of_step(uint64_t every, uint64_t after, const char *expected)
{
    struct error error = {0};
    AUTO_JSON json_t *tree = parse(minimal);

    put(tree, "data.validation", json_real(0.1));
    put(tree, "evaluate.every", json_integer(30));
    put(tree, "elastic.freeze.policy", json_string("plasticity"));
    put(tree, "elastic.freeze.every", json_integer((json_int_t)every));
    put(tree, "elastic.freeze.after", json_integer((json_int_t)after));
    assert_int_equal(decode(tree, &error), expected ? -EINVAL : 0);
    if (expected)
        assert_string_equal(error.text, expected);
}

static void test_plasticity_is_measured_in_evaluations(void **state)
{
    (void)state;
    assert_out_of_step(60, 90, NULL);
    assert_out_of_step(50, 90,
                       "demo.yaml: elastic.freeze.every: plasticity is measured in evaluations: 50 "
                       "must be a multiple of the 30 of evaluate.every");
    assert_out_of_step(
        60, 100,
        "demo.yaml: elastic.freeze.after: plasticity is measured in evaluations: 100 "
        "must be a multiple of the 30 of evaluate.every");
}

static void test_rules_between_keys(void **state)
{
    (void)state;
    assert_refused("model.heads", "5",
                   "demo.yaml:3: model.heads: 5 heads do not divide model.width 128; the nearest "
                   "that do are 4 and 8");
    assert_refused("model.heads", "200",
                   "demo.yaml:3: model.heads: 200 heads do not divide model.width 128; the nearest "
                   "that do are 128 and 128");
    assert_refused("model.kv_heads", "2",
                   "demo.yaml:3: model.kv_heads: 2 cannot be chosen with gpt2, where it is 4 here");
    assert_refused(
        "model.hidden", "500",
        "demo.yaml:3: model.hidden: 500 cannot be chosen with gpt2, where it is 512 here");
    assert_refused("model",
                   "{'family':'llama','layers':6,'width':36,'heads':6,'context':8,'kv_heads':4,"
                   "'head_width':7}",
                   "demo.yaml:3: model.width: 36 is no multiple of 16, as llama needs\n"
                   "demo.yaml:3: model.kv_heads: 4 do not divide model.heads 6\n"
                   "demo.yaml:3: model.head_width: 7 is odd, and the rotary embedding turns pairs "
                   "of columns");
    assert_refused("model.qkv_bias", "true",
                   "demo.yaml:3: model.qkv_bias: gpt2 has all its biases without being told");
    assert_refused("model",
                   "{'family':'llama','layers':6,'width':128,'heads':4,'kv_heads':2,"
                   "'head_width':20,'context':8,'qkv_bias':true}",
                   "demo.yaml:3: model.qkv_bias: 2 heads of keys of 20 columns are no multiple of "
                   "16, as biases need");
    assert_refused("model.qk_norm", "true",
                   "demo.yaml:3: model.qk_norm: gpt2 has no norms of heads");
    assert_refused("model",
                   "{'family':'llama','layers':6,'width':128,'heads':4,'context':8,"
                   "'qkv_bias':true,'qk_norm':true}",
                   "demo.yaml:3: model.qk_norm: no model has it and model.qkv_bias, too");
    assert_refused("model.rope_scaling.type", "'linear'",
                   "demo.yaml:3: model.rope_scaling.type: gpt2 has no rotary embedding that could "
                   "be scaled");
    assert_refused("model",
                   "{'family':'llama','layers':6,'width':128,'heads':4,'context':8,"
                   "'rope_scaling':{'factor':2,'low_frequency_factor':4}}",
                   "demo.yaml:3: model.rope_scaling.factor: 2 means nothing without "
                   "model.rope_scaling.type\n"
                   "demo.yaml:3: model.rope_scaling.high_frequency_factor: 4 is not above "
                   "low_frequency_factor 4");
    assert_refused("model", "{'family':'llama','layers':6,'width':128,'heads':5,'context':8}",
                   "demo.yaml:3: model.heads: 5 heads do not divide model.width 128; the nearest "
                   "that do are 4 and 8");
    assert_refused("model.vocab", "255",
                   "demo.yaml:3: model.vocab: 255 tokens are too few for data.format bytes, which "
                   "has 256");
    assert_refused("train.optimizer.warmup", "101",
                   "demo.yaml: train.optimizer.warmup: 101 steps are more than train.steps 100");
    assert_refused("elastic.devices", "{'min':4,'max':2}",
                   "demo.yaml: elastic.devices.min: 4 is more than elastic.devices.max 2");
    assert_refused("elastic.evict_stragglers.factor", "1.1",
                   "demo.yaml: elastic.evict_stragglers.factor: 1.1 times is within the noise of "
                   "measuring; needs 0 (never), or at least 1.2");
    assert_refused("train",
                   "{'steps':1,'lanes':1024,'micro_batch':65536,'micro_batches_per_lane':65536}",
                   "demo.yaml: train.micro_batch: lanes x micro_batch x micro_batches_per_lane x "
                   "model.context is more than 2^40 tokens a step");
    assert_refused("train", "{'steps':1000000000000,'lanes':1024,'micro_batch':1024}",
                   "demo.yaml: train.steps: the whole job would read more than 2^53 samples");
}

static void test_rules_beside_other_mistakes(void **state)
{
    (void)state;
    assert_refused("elastic", "{'devices':{'min':4,'max':2},'freeze':{'every':0}}",
                   "demo.yaml: elastic.freeze.every: found 0; needs a whole number from 1 to "
                   "1000000000000\n"
                   "demo.yaml: elastic.devices.min: 4 is more than elastic.devices.max 2");
    assert_refused("elastic.devices",
                   "{'min':4,'max':0}", /* max has no valid value: min is not compared with it */
                   "demo.yaml: elastic.devices.max: found 0; needs a whole number from 1 to 4096");
}

static void test_masks(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "data.mask", parse("['/m/*', '/n']"));
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.data.mask.count, 2);
    assert_string_equal(spec.data.mask.paths[1], "/n");
    put(tree, "data.mask", json_array());
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(spec.data.mask.count, 0);
    put(tree, "data.path", json_array()); /* a required key */
    assert_int_equal(decode(tree, &error), -EINVAL);
    assert_refused("data.mask", "true",
                   "demo.yaml: data.mask: found true; needs a path, or a list of 1 to 32 paths");
    assert_refused("data", "{'path':'/p','mask':'/m','validation':'/v'}",
                   "demo.yaml: data.validation_mask: is missing: data.mask says which tokens of "
                   "data.path count in the loss, and data.validation is a path of its own");
    assert_refused("data", "{'path':'/p','mask':'/m','validation_mask':'/v'}",
                   "demo.yaml: data.validation_mask: belongs to data.mask and a path at "
                   "data.validation; a share of data.path has that one's mask");
}

static void test_evaluation_needs_data(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "evaluate.every", json_integer(10));
    put(tree, "data.validation", json_integer(0));
    assert_int_equal(decode(tree, &error), -EINVAL);
    assert_string_equal(error.text, "demo.yaml: evaluate.every: nothing is held out to evaluate "
                                    "on: data.validation is 0");
    put(tree, "data.validation", json_string("/v"));
    assert_int_equal(decode(tree, &error), 0);
}

static void test_all_problems_are_listed_up_to_a_bound(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = json_object();
    for (unsigned i = 0; i < 40; i++) {
        char key[32];
        snprintf(key, sizeof(key), "zzzzzz%u", i);
        put(tree, key, json_true());
    }
    assert_int_equal(decode(tree, &error), -EINVAL);
    unsigned lines = 1;
    for (const char *c = error.text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_true(lines >= 8);
    assert_true(strlen(error.text) < ERROR_TEXT_SIZE);
    assert_int_equal(job_spec_decode(tree, "x", NULL, NULL, &spec, NULL), -EINVAL);
}

static unsigned line_by_name(void *context, const char *key_path)
{
    (void)context;
    static const struct {
        const char *key_path;
        unsigned line;
    } lines[] = {{"train.lanse", 9}, {"checkpoint.evry", 2}, {"train.steps", 4}, {"model", 5}};
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        if (strcmp(lines[i].key_path, key_path) == 0)
            return lines[i].line;
    return 0;
}

static void test_problems_come_in_the_order_of_the_file(void **state)
{
    (void)state;
    struct error error = {0};
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "train.lanse", json_integer(4));
    put(tree, "train.steps", json_string("two\nlines"));
    put(tree, "checkpoint.evry", json_integer(4));
    put(tree, "model.layers", json_integer(-1));
    put(tree, "zzzzzz", json_true());
    assert_int_equal(job_spec_decode(tree, "x", line_by_name, NULL, &spec, &error), -EINVAL);
    static const char *const order[] = {"x: zzzzzz: ", "\nx:2: checkpoint.evry: ",
                                        "\nx:4: train.steps: found the text \"two lines\"",
                                        "\nx:5: model.layers: found -1; ", "\nx:9: train.lanse: "};
    const char *at = error.text;
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        at = strstr(at, order[i]);
        if (!at)
            fail_msg("%s is not in its place in: %s", order[i], error.text);
    }
}

/* Problems are returned a few at a time, each once and whole. */
static void test_all_problems_can_be_had(void **state)
{
    (void)state;
    AUTO_JSON json_t *tree = json_object();
    unsigned told = 0, count = 0, more = 0, keys = 0;
    for (unsigned i = 0; i < 40; i++) {
        char key[32];
        snprintf(key, sizeof(key), "zzzzzz%u", i);
        put(tree, key, json_true());
    }
    do {
        struct error error = {0};
        assert_int_equal(job_spec_decode_from(tree, "x", NULL, NULL, told, &spec, &count, &error),
                         -EINVAL);
        for (const char *at = error.text; (at = strstr(at, "zzzzzz")); at++)
            keys++;
        const char *rest = strrchr(error.text, '\n');
        more = 0;
        if (rest && strncmp(rest, "\nand ", 5) == 0)
            more = (unsigned)strtoul(rest + 5, NULL, 10);
        assert_true(count - more > told);
        told = count - more;
    } while (more > 0);
    assert_int_equal(keys, 40);
}

static void test_strange_trees(void **state)
{
    (void)state;
    struct error error;
    static const char *const texts[] = {"[]", "7", "'x'", "null"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        AUTO_JSON json_t *tree = parse(texts[i]);
        assert_int_equal(decode(tree, &error), -EINVAL);
        assert_non_null(strstr(error.text, "demo.yaml"));
    }
    /* A key with a dot, or of any length, is an unknown key, not a path. */
    AUTO_JSON json_t *tree = parse(minimal);
    assert_int_equal(json_object_set_new(tree, "train.lanes", json_integer(2)), 0);
    assert_int_equal(decode(tree, &error), -EINVAL);
    char name[4000] = {0};
    memset(name, 'k', sizeof(name) - 1);
    AUTO_JSON json_t *longer = parse(minimal);
    assert_int_equal(json_object_set_new(longer, name, json_integer(2)), 0);
    assert_int_equal(decode(longer, &error), -EINVAL);
    AUTO_JSON json_t *paths = parse(minimal);
    put(paths, "data.path", json_string(name)); /* longer than the longest path */
    assert_int_equal(decode(paths, &error), -EINVAL);
    assert_non_null(strstr(error.text, "..."));
}

static void test_sizes(void **state)
{
    (void)state;
    struct error error;
    AUTO_JSON json_t *tree = parse(minimal);
    put(tree, "train.micro_batches_per_lane", json_integer(3));
    assert_int_equal(decode(tree, &error), 0);
    assert_int_equal(job_spec_tokens_per_step(&spec.model, &spec.train), 8 * 4 * 3 * 64);
    assert_int_equal(job_model_unit_count(&spec.model), 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_that_follow_from_other_keys),
        cmocka_unit_test(test_every_form_of_a_value),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_encoding_has_every_key),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_messages_say_where_what_and_what_is_allowed),
        cmocka_unit_test(test_unknown_keys_are_answered_with_the_meant_one),
        cmocka_unit_test(test_rules_of_freezing),
        cmocka_unit_test(test_plasticity_is_measured_in_evaluations),
        cmocka_unit_test(test_rules_between_keys),
        cmocka_unit_test(test_rules_beside_other_mistakes),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_evaluation_needs_data),
        cmocka_unit_test(test_all_problems_are_listed_up_to_a_bound),
        cmocka_unit_test(test_problems_come_in_the_order_of_the_file),
        cmocka_unit_test(test_all_problems_can_be_had),
        cmocka_unit_test(test_strange_trees),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
