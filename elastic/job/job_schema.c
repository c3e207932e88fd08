#include "elastic/job/job_schema.h"

#include <stdio.h>
#include <string.h>

#define STEPS_MAX    1e12
#define CACHE_MB_MAX 1e9                /* a petabyte */
#define SEED_MAX     9007199254740991.0 /* 2^53 - 1: every JSON reader keeps such a number exact */

#define VOCAB_BYTES         256
#define VOCAB_GPT2          50257
#define DEVICES_MAX_DEFAULT 64
#define VALIDATION_DEFAULT  0.1
#define HIDDEN_STEP         64 /* of the default size inside a Llama's MLP */

static const char *const families[] = {"gpt2", "llama", NULL};
static const char *const ropes[] = {
    [JOB_ROPE_PLAIN] = "none", [JOB_ROPE_LINEAR] = "linear", [JOB_ROPE_LLAMA3] = "llama3", NULL};
static const char *const optimizers[] = {"adamw", NULL};
static const char *const formats[] = {[JOB_FORMAT_BYTES] = "bytes",
                                      [JOB_FORMAT_LLMC] = "llmc",
                                      [JOB_FORMAT_UINT16] = "uint16",
                                      [JOB_FORMAT_UINT32] = "uint32",
                                      NULL};
static const char *const precisions[] = {[JOB_PRECISION_BF16] = "bf16",
                                         [JOB_PRECISION_TF32] = "tf32",
                                         [JOB_PRECISION_F32] = "f32",
                                         NULL};
static const char *const nan_policies[] = {[JOB_NAN_STOP] = "stop", [JOB_NAN_SKIP] = "skip", NULL};
static const char *const schedules[] = {[JOB_SCHEDULE_CONSTANT] = "constant",
                                        [JOB_SCHEDULE_COSINE] = "cosine",
                                        [JOB_SCHEDULE_LINEAR] = "linear",
                                        NULL};
static const char *const pipelines[] = {
    [JOB_PIPELINE_AUTO] = "auto", [JOB_PIPELINE_1F1B] = "1f1b", NULL};
static const char *const freezes[] = {
    [JOB_FREEZE_NONE] = "none",         [JOB_FREEZE_GRADIENT] = "gradient",
    [JOB_FREEZE_SCHEDULE] = "schedule", [JOB_FREEZE_PLASTICITY] = "plasticity",
    [JOB_FREEZE_BUDGET] = "budget",     NULL};

static void default_vocab(struct job_spec *spec)
{
    spec->model.vocab = spec->data.format == JOB_FORMAT_BYTES ? VOCAB_BYTES : VOCAB_GPT2;
}

static void default_kv_heads(struct job_spec *spec)
{
    spec->model.kv_heads = spec->model.heads;
}

/* Set 0 when the width is not divisible; job_rules.c reports it. */
static void default_head_width(struct job_spec *spec)
{
    unsigned width = spec->model.width, heads = spec->model.heads;
    spec->model.head_width = heads > 0 && width % heads == 0 ? width / heads : 0;
}

/* A gated MLP has three matrices. With two thirds of the columns it is as large as an MLP with
 * two. */
static void default_hidden(struct job_spec *spec)
{
    unsigned width = spec->model.width, gated = (8 * width + 2) / 3;
    spec->model.hidden = job_model_is_llama(&spec->model)
                             ? (gated + HIDDEN_STEP - 1) / HIDDEN_STEP * HIDDEN_STEP
                             : 4 * width;
}

static void default_validation(struct job_spec *spec)
{
    spec->data.validation_path[0] = '\0';
    spec->data.validation_share = spec->evaluate.every > 0 ? VALIDATION_DEFAULT : 0;
}

static void default_devices_max(struct job_spec *spec)
{
    spec->elastic.devices_max = MAX(spec->elastic.devices_min, (unsigned)DEVICES_MAX_DEFAULT);
}

#define AT(field) offsetof(struct job_spec, field)

/* clang-format off */
const struct schema_key job_schema[] = {
    {"name", SCHEMA_NAME, AT(name), .also = " job job_name run_name ",
     .meaning = "Names the job in `firnctl`, in etcd and in folders; `firnctl job submit --name` overrides it"},

    {"model.family", SCHEMA_WORD, AT(model.family), .choices = families, .default_json = "\"gpt2\"",
     .also = " model_type arch ", .meaning = "The architecture"},
    {"model.layers", SCHEMA_UNSIGNED, AT(model.layers), 1, 256, .unit = "transformer blocks",
     .also = " n_layer num_layers num_hidden_layers depth ",
     .meaning = "Each gives two units that a stage can begin or end with: attention and MLP"},
    {"model.width", SCHEMA_UNSIGNED, AT(model.width), 1, 65536, .unit = "channels",
     .also = " n_embd hidden_size d_model dim channels ", .meaning = "Size of the residual stream"},
    {"model.heads", SCHEMA_UNSIGNED, AT(model.heads), 1, 65536, .unit = "heads",
     .also = " n_head num_heads num_attention_heads ", .meaning = "Attention heads; must divide `model.width`"},
    {"model.context", SCHEMA_UNSIGNED, AT(model.context), 1, 1048576, .unit = "tokens",
     .also = " n_ctx block_size seq_len max_seq_length n_positions sequence_length ",
     .meaning = "Length of a sample"},
    {"model.vocab", SCHEMA_UNSIGNED, AT(model.vocab), 2, 1048576, .default_from = default_vocab,
     .default_note = "256 for format `bytes`, else 50257 (GPT-2)", .unit = "tokens", .also = " vocab_size n_vocab ",
     .meaning = "Size of the token table; at least 256 for format `bytes`"},
    {"model.tied", SCHEMA_FLAG, AT(model.tied), .default_json = "true", .also = " tie_word_embeddings tie_weights ",
     .meaning = "The head uses the token embedding's weights, until freezing the embedding unties them"},
    {"model.kv_heads", SCHEMA_UNSIGNED, AT(model.kv_heads), 1, 65536, .default_from = default_kv_heads,
     .default_note = "`model.heads`", .unit = "heads", .also = " num_key_value_heads n_kv_heads num_kv_heads n_head_kv ",
     .meaning = "Heads of keys and values, each shared by several query heads; must divide `model.heads`; llama"},
    {"model.head_width", SCHEMA_UNSIGNED, AT(model.head_width), 1, 65536, .default_from = default_head_width,
     .default_note = "`model.width` / `model.heads`", .unit = "columns", .also = " head_dim head_size d_head ",
     .meaning = "Columns of a head, an even number; llama"},
    {"model.hidden", SCHEMA_UNSIGNED, AT(model.hidden), 1, 1048576, .default_from = default_hidden,
     .default_note = "llama: 8/3 `model.width`, up to a multiple of 64; gpt2: 4 `model.width`", .unit = "columns",
     .also = " intermediate_size ffn_dim n_inner hidden_dim d_ff mlp_hidden ", .meaning = "Columns inside the MLP; llama"},
    {"model.qkv_bias", SCHEMA_FLAG, AT(model.qkv_bias), .default_json = "false", .omit_if_default = true,
     .also = " attention_bias attn_bias bias use_bias qkv_proj_bias ",
     .meaning = "Queries, keys and values have biases, as in Qwen2; llama (gpt2 has them)"},
    {"model.qk_norm", SCHEMA_FLAG, AT(model.qk_norm), .default_json = "false", .omit_if_default = true,
     .also = " use_qk_norm qk_layernorm query_key_norm ",
     .meaning = "Each head of queries and keys has an RMS norm before the rotary embedding is applied, as in Qwen3; not with `qkv_bias`; llama"},
    {"model.rope_theta", SCHEMA_REAL, AT(model.rope_theta), 1, 1e12, .default_json = "10000",
     .also = " rope_base rotary_base theta rope_freq_base ", .meaning = "Base of the rotary position embedding; llama"},
    {"model.rope_scaling.type", SCHEMA_CHOICE, AT(model.rope_scaling.type), .choices = ropes, .default_json = "\"none\"", .omit_if_default = true,
     .also = " rope_type rope rope_scaling_type ",
     .meaning = "The scaling of the rotary embedding's frequencies for a context longer than that of the first training: `linear` divides all of them by `factor`, `llama3` the low ones (Llama 3.1 and later); llama"},
    {"model.rope_scaling.factor", SCHEMA_REAL, AT(model.rope_scaling.factor), 1, 1e6, .default_json = "1.0", .omit_if_default = true,
     .unit = "times", .also = " rope_factor ", .meaning = "The divisor of frequencies"},
    {"model.rope_scaling.low_frequency_factor", SCHEMA_REAL, AT(model.rope_scaling.low_frequency_factor), 0, 1e6, .above_min = true,
     .default_json = "1.0", .omit_if_default = true, .unit = "periods", .also = " low_freq_factor ",
     .meaning = "`llama3`: frequencies with fewer periods than this in `original_context` are divided by `factor`"},
    {"model.rope_scaling.high_frequency_factor", SCHEMA_REAL, AT(model.rope_scaling.high_frequency_factor), 0, 1e6, .above_min = true,
     .default_json = "4.0", .omit_if_default = true, .unit = "periods", .also = " high_freq_factor ",
     .meaning = "`llama3`: frequencies with more periods than this in `original_context` stay as they are; above `low_frequency_factor`"},
    {"model.rope_scaling.original_context", SCHEMA_UNSIGNED, AT(model.rope_scaling.original_context), 1, 1048576,
     .default_json = "8192", .omit_if_default = true, .unit = "tokens", .also = " original_max_position_embeddings ",
     .meaning = "`llama3`: the context of the first training"},
    {"model.norm_epsilon", SCHEMA_REAL, AT(model.norm_epsilon), 0, 1, .above_min = true, .default_json = "1e-5",
     .also = " rms_norm_eps layer_norm_epsilon norm_eps layer_norm_eps ",
     .meaning = "Added to the mean square under the root of a norm; llama"},
    {"model.from", SCHEMA_PATH, AT(model.from), .default_json = "\"\"", .default_note = "none: `train.seed` makes them",
     .also = " pretrained init_from init checkpoint_path model_name_or_path base_model ",
     .meaning = "A folder of Hugging Face's (config.json, safetensors), the same on every node, whose parameters training begins with; sizes that are not given here are taken from it; relative to the job file"},

    {"data.format", SCHEMA_CHOICE, AT(data.format), .choices = formats, .default_json = "\"bytes\"",
     .meaning = "`bytes`: any files, one token a byte; `llmc`: llm.c's `.bin` files; `uint16`: nanoGPT's raw token files; `uint32`: the same for more than 65,536 tokens"},
    {"data.path", SCHEMA_PATHS, AT(data.path), .also = " paths file files dataset train ",
     .meaning = "Files, folders or globs (`**` crosses folders), the same on every node; relative to the job file"},
    {"data.mask", SCHEMA_PATHS, AT(data.mask), .default_json = "[]", .default_note = "none: every token counts", .omit_if_default = true,
     .also = " loss_mask label_mask labels_mask assistant_only_loss train_on_inputs completion_only_loss ",
     .meaning = "Which tokens count in the loss: one file for each of `data.path`, in the same order of names, with one byte for each of its tokens: 1 counts, 0 does not"},
    {"data.validation", SCHEMA_SHARE_OR_PATH, AT(data.validation_share), 0, 1, .below_max = true,
     .default_from = default_validation, .default_note = "0.1 when `evaluate.every` is above 0, else 0",
     .unit = "share of the samples, or a path", .also = " val validation_share val_split ",
     .meaning = "The held-out data for evaluation: the last share of the data, or data of its own"},
    {"data.validation_mask", SCHEMA_PATH, AT(data.validation_mask), .default_json = "\"\"", .default_note = "none", .omit_if_default = true,
     .also = " val_mask ",
     .meaning = "The same for a `data.validation` that is a path: needed there when `data.mask` is given"},

    {"train.steps", SCHEMA_COUNT, AT(train.steps), 1, STEPS_MAX, .unit = "steps",
     .also = " max_steps max_iters iterations total_steps ", .meaning = "Optimizer steps of the whole job"},
    {"train.lanes", SCHEMA_UNSIGNED, AT(train.lanes), 1, JOB_LANES_MAX, .default_json = "8", .unit = "lanes",
     .also = " replicas data_parallel ",
     .meaning = "Logical replicas, fixed for the job's life: the most replicas it can use; a number with many divisors (8, 12, 24) balances best"},
    {"train.micro_batch", SCHEMA_UNSIGNED, AT(train.micro_batch), 1, 65536, .default_json = "4", .unit = "samples",
     .also = " batch_size batch micro_batch_size ", .meaning = "Samples of one forward and backward pass"},
    {"train.micro_batches_per_lane", SCHEMA_UNSIGNED, AT(train.micro_batches_per_lane), 1,
     JOB_MICRO_BATCHES_MAX,
     .default_json = "1", .unit = "micro-batches", .also = " gradient_accumulation_steps grad_accum accumulate ",
     .meaning = "Passes that each lane adds up in a step; a step's batch is lanes x micro_batch x this"},
    {"train.seed", SCHEMA_COUNT, AT(train.seed), 0, SEED_MAX, .default_json = "1",
     .meaning = "Decides initialization and the order of the samples"},
    {"train.precision", SCHEMA_CHOICE, AT(train.precision), .choices = precisions, .default_json = "\"bf16\"",
     .also = " dtype mixed_precision amp torch_dtype ",
     .meaning = "The type of activations and products on GPUs; parameters, gradients, optimizer and sums are always f32, and so is everything on CPU slots"},

    {"train.on_nan", SCHEMA_CHOICE, AT(train.on_nan), .choices = nan_policies, .default_json = "\"stop\"", .omit_if_default = true,
     .also = " check_for_nan nan_policy detect_anomaly skip_nan nonfinite terminate_on_nan nan ",
     .meaning = "A step whose loss or gradient norm is NaN or infinite changes no parameter. `stop`: the job fails there, and its newest checkpoint is of before; `skip`: the step is left out, and the next one goes on with other samples"},

    {"train.optimizer.name", SCHEMA_WORD, AT(train.optimizer.name), .choices = optimizers,
     .default_json = "\"adamw\"", .meaning = "The optimizer"},
    {"train.optimizer.lr", SCHEMA_REAL, AT(train.optimizer.lr), 0, 10, .above_min = true, .default_json = "3e-4",
     .also = " learning_rate ", .meaning = "Learning rate after the warm-up"},
    {"train.optimizer.betas", SCHEMA_REAL_PAIR, AT(train.optimizer.beta1), 0, 1, .below_max = true,
     .default_json = "[0.9, 0.95]", .also = " beta beta1 beta2 ",
     .meaning = "Decay of the averages of the gradient and of its square"},
    {"train.optimizer.eps", SCHEMA_REAL, AT(train.optimizer.epsilon), 0, 1, .above_min = true,
     .default_json = "1e-8", .also = " epsilon ", .meaning = "Added to the denominator of an update"},
    {"train.optimizer.weight_decay", SCHEMA_REAL, AT(train.optimizer.weight_decay), 0, 10,
     .default_json = "0.1", .also = " wd decay ",
     .meaning = "Decoupled decay of matrices and tables; norms and biases have none"},
    {"train.optimizer.warmup", SCHEMA_COUNT, AT(train.optimizer.warmup), 0, STEPS_MAX, .default_json = "0",
     .unit = "steps", .also = " warmup_steps warmup_iters ", .meaning = "Steps over which the learning rate rises linearly"},
    {"train.optimizer.schedule", SCHEMA_CHOICE, AT(train.optimizer.schedule), .choices = schedules,
     .default_json = "\"cosine\"", .also = " lr_scheduler_type lr_scheduler lr_schedule scheduler ",
     .meaning = "The learning rate after the warm-up; `cosine` and `linear` fall to `min_lr_factor` of it at the last step"},
    {"train.optimizer.min_lr_factor", SCHEMA_REAL, AT(train.optimizer.min_lr_factor), 0, 1, .default_json = "0.1", .omit_if_default = true,
     .unit = "share of lr", .also = " min_lr min_lr_rate min_lr_ratio final_lr decay_lr learning_rate_decay_frac ",
     .meaning = "The learning rate at the last step of `cosine` and `linear`, as a share of `lr`; 0: nothing"},
    {"train.optimizer.clip", SCHEMA_REAL, AT(train.optimizer.clip), 0, 1e9, .default_json = "1.0",
     .also = " grad_clip max_grad_norm gradient_clip ",
     .meaning = "Largest global gradient norm; gradients above it are scaled down to it; 0: never"},

    {"elastic.devices.min", SCHEMA_UNSIGNED, AT(elastic.devices_min), 1, JOB_DEVICES_MAX, .default_json = "1",
     .unit = "slots", .also = " min_devices ",
     .meaning = "The job waits until it can have this many; jobs that wait are served in the order of their submission"},
    {"elastic.devices.max", SCHEMA_UNSIGNED, AT(elastic.devices_max), 1, JOB_DEVICES_MAX,
     .default_from = default_devices_max, .default_note = "64, or `min` where that is more",
     .unit = "slots", .also = " max_devices ",
     .meaning = "The job never takes more, and gives back what it has above `min` when another job waits for its `min`; `firnctl job scale` changes it"},
    {"elastic.pipeline", SCHEMA_CHOICE, AT(elastic.pipeline), .choices = pipelines, .default_json = "\"auto\"",
     .omit_if_default = true, .also = " pipeline_schedule schedule zero_bubble zb ",
     .meaning = "The order of work in a pipeline: with `auto` weight gradients wait while the pipeline would stand idle, as many as the memory allows (ZB-H1); `1f1b` defers none; the bits are the same"},
    {"elastic.freeze.policy", SCHEMA_CHOICE, AT(elastic.freeze.policy), .choices = freezes,
     .default_json = "\"none\"",
     .meaning = "When layers stop training, from the input up: `gradient` follows the gradient norms, `schedule` only the count of decisions, `plasticity` how much the output of a layer's MLP on validation samples still changes, `budget` what a step may cost"},
    {"elastic.freeze.alpha", SCHEMA_REAL, AT(elastic.freeze.alpha), 0, 1, .above_min = true,
     .default_json = "0.33", .meaning = "Largest share of the layers still training that one decision may freeze; not with `plasticity`, which freezes one at a time"},
    {"elastic.freeze.every", SCHEMA_COUNT, AT(elastic.freeze.every), 1, STEPS_MAX, .default_json = "100",
     .unit = "steps", .also = " interval ", .meaning = "Steps between two decisions"},
    {"elastic.freeze.keep_active", SCHEMA_UNSIGNED, AT(elastic.freeze.keep_active), 0, 256, .default_json = "1",
     .unit = "layers", .meaning = "Layers at the top that never freeze; at most `model.layers`"},
    {"elastic.freeze.from_start", SCHEMA_UNSIGNED, AT(elastic.freeze.from_start), 0, 256, .default_json = "0",
     .unit = "layers", .also = " frozen frozen_layers freeze_layers ",
     .meaning = "Layers that never train, with any policy: fine-tuning of the upper layers; with `keep_active` at most `model.layers`"},
    {"elastic.freeze.after", SCHEMA_COUNT, AT(elastic.freeze.after), 0, STEPS_MAX, .default_json = "0",
     .unit = "steps", .also = " warmup ",
     .meaning = "No decision before this step; the first is `every` steps later"},
    {"elastic.freeze.tolerance", SCHEMA_REAL, AT(elastic.freeze.tolerance), 0, 1, .above_min = true, .default_json = "0.3",
     .omit_if_default = true, .unit = "share of the plasticity", .also = " plasticity_tolerance ",
     .meaning = "With `plasticity`: the lowest trained layer freezes when the mean of its last `patience` values differs from the mean of as many before by at most this share of the larger"},
    {"elastic.freeze.patience", SCHEMA_UNSIGNED, AT(elastic.freeze.patience), 1, 16, .default_json = "3",
     .omit_if_default = true, .unit = "measurements", .also = " window ",
     .meaning = "With `plasticity`: the number of values in each of the two means; one is measured every `elastic.freeze.every` steps, in an evaluation"},
    {"elastic.freeze.budget", SCHEMA_REAL, AT(elastic.freeze.budget), 0, 1, .above_min = true, .default_json = "0.5",
     .omit_if_default = true, .unit = "share of a step", .also = " compute_budget target ",
     .meaning = "With `budget`: as few layers freeze as bring the arithmetic of a step down to this share of a step without frozen layers; counted from the model's sizes, without kept outputs"},
    {"elastic.freeze.guard", SCHEMA_REAL, AT(elastic.freeze.guard), 0, 10, .default_json = "0.0", .omit_if_default = true,
     .unit = "share of the loss", .also = " margin val_margin ",
     .meaning = "While the last validation loss is above the best one by more than this share of it, no further layer freezes; needs `evaluate.every`; 0: whatever the loss"},
    {"elastic.freeze.thaw", SCHEMA_REAL, AT(elastic.freeze.thaw), 0, 10, .default_json = "0.0", .omit_if_default = true,
     .unit = "share of the loss", .also = " unfreeze thaw_margin ",
     .meaning = "When the last validation loss is above the best one by more than this share of it, the layers that have frozen train again, and none freezes until it is better; slots keep the memory for that; needs `evaluate.every`; 0: what is frozen stays so"},
    {"elastic.freeze.cache_mb", SCHEMA_COUNT, AT(elastic.freeze.cache_mb), 0, CACHE_MB_MAX,
     .default_json = "16384", .unit = "MiB", .also = " cache autocache cache_size activation_cache ",
     .meaning = "Space on each node's disk for the outputs of frozen layers, so that later epochs load them, or fetch them from another node, instead of computing; 0: none"},

    {"elastic.mixed_devices", SCHEMA_FLAG, AT(elastic.mixed_devices), .default_json = "false",
     .also = " heterogeneous mixed allow_mixed ",
     .meaning = "Nodes whose processor or libraries compute otherwise may take part, too; then results depend on the layout, and a run cannot be repeated to the bit"},
    {"elastic.shadow", SCHEMA_FLAG, AT(elastic.shadow), .default_json = "false",
     .also = " shadows buddy mirror standby ",
     .meaning = "A stage that is on one node only has a copy on another, which follows it step by step: no node's loss goes back to a checkpoint; costs memory and traffic"},

    {"elastic.evict_stragglers.factor", SCHEMA_REAL, AT(elastic.evict_stragglers.factor), 0, 1000,
     .default_json = "0", .unit = "times", .also = " slowdown threshold straggler_factor ",
     .meaning = "A worker that is this many times slower than its peers is replaced by a free slot, gets fewer lanes, or is left out: the choice with the shortest step; at least 1.2; 0: never"},
    {"elastic.evict_stragglers.steps", SCHEMA_UNSIGNED, AT(elastic.evict_stragglers.steps), 5, 100000,
     .default_json = "20", .unit = "steps", .also = " patience straggler_steps window ",
     .meaning = "For how many steps it must be, on average and without its slowest one"},

    {"checkpoint.path", SCHEMA_PATH, AT(checkpoint.path), .default_json = "\"\"",
     .default_note = "the node's `checkpoint_dir`", .also = " folder directory dir out_dir output_dir ",
     .meaning = "A folder that every node of the job can reach, or, with `copies` above 1, that each node has on a disk of its own; relative to the job file"},
    {"checkpoint.every", SCHEMA_COUNT, AT(checkpoint.every), 0, STEPS_MAX, .default_json = "0", .unit = "steps",
     .also = " save_steps interval save_every ", .meaning = "Steps between checkpoints; 0: only at the end, on pause and on drain. One that a change of layout prevents is made up for after the first step of the new layout"},
    {"checkpoint.keep", SCHEMA_UNSIGNED, AT(checkpoint.keep), 1, 1000, .default_json = "2", .unit = "checkpoints",
     .also = " save_total_limit ", .meaning = "The number of newest checkpoints that stay; older ones are deleted. For a while up to two more stay: the newest that has been read back, and the one before a checkpoint whose next step is still computed"},
    {"checkpoint.copies", SCHEMA_UNSIGNED, AT(checkpoint.copies), 1, 8, .default_json = "1", .unit = "nodes",
     .meaning = "On how many nodes' disks each shard lies. 1: in one folder that all nodes share. More: every node has a folder of its own (`path` must not be shared), and the loss of any `copies` - 1 nodes with their disks loses nothing"},
    {"checkpoint.object.bucket", SCHEMA_BUCKET, AT(checkpoint.object_bucket), .default_json = "\"\"",
     .default_note = "none", .also = " s3 bucket object_store ",
     .meaning = "A bucket of the cluster's object store, where committed checkpoints are copied to in the background; `object_store` of firnd's configuration says where that is"},
    {"checkpoint.object.keep", SCHEMA_UNSIGNED, AT(checkpoint.object_keep), 1, 1000, .default_json = "3", .unit = "checkpoints",
     .meaning = "The number of newest checkpoints that stay there"},

    {"evaluate.every", SCHEMA_COUNT, AT(evaluate.every), 0, STEPS_MAX, .default_json = "0", .unit = "steps",
     .also = " eval_interval eval_steps interval eval_every ", .meaning = "Steps between evaluations on the held-out data, also before the first and the last one; the finished model is evaluated too; 0: never"},
    {"evaluate.batches", SCHEMA_BATCHES, AT(evaluate.batches), 1, 1000000, .default_json = "\"auto\"", .omit_if_default = true,
     .unit = "micro-batches", .also = " eval_iters ", .meaning = "Validation data that one evaluation reads, from its beginning; `all`: all of it; `auto`: all of it where that is at most a tenth of what is trained between two evaluations, or at most 8, else 8"},
};
/* clang-format on */

const unsigned job_schema_count = ARRAY_COUNT(job_schema);

static void range_text(const struct schema_key *key, char *ret_text, size_t text_size)
{
    if (key->above_min)
        snprintf(ret_text, text_size, "above %.16g, at most %.16g", key->min, key->max);
    else if (key->below_max)
        snprintf(ret_text, text_size, "at least %.16g, below %.16g", key->min, key->max);
    else
        snprintf(ret_text, text_size, "from %.16g to %.16g", key->min, key->max);
}

static void choices_text(const struct schema_key *key, char *ret_text, size_t text_size)
{
    size_t length = 0;
    ret_text[0] = '\0';
    for (unsigned i = 0; key->choices[i] && length < text_size; i++) {
        const char *between = i == 0 ? "" : !key->choices[i + 1] ? " or " : ", ";
        length += (size_t)snprintf(ret_text + length, text_size - length, "%s%s", between,
                                   key->choices[i]);
    }
}

void schema_allowed(const struct schema_key *key, char ret_text[SCHEMA_TEXT_SIZE])
{
    char range[SCHEMA_TEXT_SIZE / 2];
    range_text(key, range, sizeof(range));
    switch (key->type) {
    case SCHEMA_NAME:
        snprintf(ret_text, SCHEMA_TEXT_SIZE,
                 "a name: 1 to %d of a-z 0-9 . _ -, beginning with a letter or digit",
                 NAME_SIZE - 1);
        return;
    case SCHEMA_PATH:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a path of at most %d bytes", JOB_PATH_SIZE - 1);
        return;
    case SCHEMA_BUCKET:
        snprintf(ret_text, SCHEMA_TEXT_SIZE,
                 "a bucket's name (3 to %d of a-z 0-9 . -, a letter or digit at both ends), or "
                 "nothing",
                 NAME_SIZE - 1);
        return;
    case SCHEMA_PATHS:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a path, or a list of 1 to %d paths", JOB_PATHS_MAX);
        return;
    case SCHEMA_SHARE_OR_PATH:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a number %s, or a path", range);
        return;
    case SCHEMA_UNSIGNED:
    case SCHEMA_COUNT:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a whole number %s", range);
        return;
    case SCHEMA_BATCHES:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a whole number %s, all or auto", range);
        return;
    case SCHEMA_REAL:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a number %s", range);
        return;
    case SCHEMA_REAL_PAIR:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "a list of two numbers, each %s", range);
        return;
    case SCHEMA_FLAG:
        snprintf(ret_text, SCHEMA_TEXT_SIZE, "true or false");
        return;
    case SCHEMA_CHOICE:
    case SCHEMA_WORD:
        choices_text(key, ret_text, SCHEMA_TEXT_SIZE);
        return;
    }
}

const struct schema_key *schema_find(const char *path)
{
    for (unsigned i = 0; i < job_schema_count; i++)
        if (strcmp(job_schema[i].path, path) == 0)
            return &job_schema[i];
    return NULL;
}

bool schema_has_section(const char *path)
{
    size_t length = strlen(path);
    for (unsigned i = 0; i < job_schema_count; i++)
        if (strncmp(job_schema[i].path, path, length) == 0 && job_schema[i].path[length] == '.')
            return true;
    return false;
}

const char *schema_last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return !dot ? path : dot + 1;
}
