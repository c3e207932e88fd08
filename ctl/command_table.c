/*
 * The table of commands, in the order of `firnctl help`: in which a new user needs them.
 */
#include "ctl/command/commands.h"

static const struct flag endpoints = {
    "endpoints", "URLS",
    FLAG_TEXT,   0,
    0,           "etcd, separated by commas (else FIRN_ENDPOINTS, else http://127.0.0.1:2379)"};
static const struct flag cluster = {
    "cluster", "NAME", FLAG_TEXT, 0, 0, "which cluster (else FIRN_CLUSTER, else \"default\")"};
static const struct flag timeout = {
    "timeout",
    "SECONDS",
    FLAG_NUMBER,
    1,
    86400,
    "give up after this long (10; 3 where nodes can be asked instead; local commands: 60)"};
static const struct flag token_file = {
    "token-file",
    "FILE",
    FLAG_TEXT,
    0,
    0,
    "the token that nodes want to be shown (else FIRN_TOKEN_FILE)"};
static const struct flag authorities = {
    "authorities",
    "FILE",
    FLAG_TEXT,
    0,
    0,
    "who signs the nodes' certificates (else FIRN_AUTHORITIES)"};
const struct flag *const command_global_flags[] = {&endpoints,  &cluster,     &timeout,
                                                   &token_file, &authorities, NULL};

static const struct flag json = {"json", NULL, FLAG_SWITCH, 0, 0, "JSON, for programs"};
static const struct flag dir = {"dir", "DIR", FLAG_TEXT,
                                0,     0,     "the local cluster's folder (else FIRN_DIR)"};
static const struct flag nodes = {"nodes", "N", FLAG_NUMBER, 1, 26, "nodes: a, b, c, ... (3)"};
static const struct flag slots = {"slots", "S", FLAG_NUMBER, 1, 64, "slots of each node (2)"};
static const struct flag threads = {
    "threads", "T",  FLAG_NUMBER,
    1,         1024, "threads of each slot (1); part of what exact runs share"};
static const struct flag memory = {
    "memory", "MIB",    FLAG_NUMBER,
    1,        1u << 30, "memory that a slot offers to plans (else its share of the machine)"};
static const struct flag own_disks = {
    "own-disks", NULL, FLAG_SWITCH,
    0,           0,    "a checkpoint folder for each node, as checkpoint.copies wants it"};
static const struct flag config = {
    "config", "FILE", FLAG_TEXT, 0, 0, "settings of firnd for every node, as firnd.yaml has them"};
static const struct flag daemon_only = {
    "daemon-only", NULL, FLAG_SWITCH, 0, 0, "kill firnd, leave its workers running"};
static const struct flag deadline = {"deadline", "SECONDS", FLAG_NUMBER,
                                     1,          86400,     "the node will be gone after so long"};
static const struct flag worker = {"worker", "SLOT", FLAG_NUMBER,
                                   0,        63,     "kill only the worker on this slot"};
static const struct flag name = {"name", "NAME", FLAG_TEXT,
                                 0,      0,      "use this name for the job instead of the file's"};
static const struct flag wait = {
    "wait", NULL, FLAG_SWITCH, 0, 0, "stay, show progress, exit 0 only when the job has completed"};
static const struct flag devices = {"devices", "N",  FLAG_NUMBER,
                                    1,         4096, "use at most this many slots"};
static const struct flag stages = {
    "stages", "K", FLAG_NUMBER, 1, 4096, "pin the pipeline to K stages (else firn chooses)"};
static const struct flag replicas = {
    "replicas", "R", FLAG_NUMBER, 1, 4096, "pin the number of replicas (else firn chooses)"};
static const struct flag set = {
    "set",
    "KEY=VALUE",
    FLAG_TEXT,
    0,
    0,
    "change a key of the job file (train.steps=200), before it is checked; may be repeated; "
    "paths are relative to this folder"};
static const struct flag from_path = {
    "from", "PATH", FLAG_TEXT,
    0,      0,      "begin from this checkpoint (or the newest in this folder), not from step 0"};
static const struct flag node = {"node", "NODE", FLAG_TEXT, 0, 0, "only this node"};
static const struct flag slot = {"slot", "S", FLAG_NUMBER, 0, 63, "only this slot"};
static const struct flag log_bytes = {"bytes", "N",     FLAG_NUMBER,
                                      1,       8388608, "how much of each log's end (16384)"};
static const struct flag follow = {"follow", NULL, FLAG_SWITCH,
                                   0,        0,    "keep printing new lines until the job is over"};
static const struct flag once = {"once", NULL, FLAG_SWITCH, 0, 0, "one picture, then exit"};
static const struct flag exact = {
    "exact",
    NULL,
    FLAG_SWITCH,
    0,
    0,
    "only \"step loss_bits grad_norm_bits frozen_layers\": two equal runs are equal by cmp; with "
    "--json as objects"};
static const struct flag from = {"from", "STEP", FLAG_NUMBER, 0, 9e15, "begin at this step"};
static const struct flag step = {"step", "N",  FLAG_NUMBER,
                                 0,      9e15, "the checkpoint of this step (else the newest)"};
static const struct flag force = {
    "force", NULL, FLAG_SWITCH, 0, 0, "also the newest one, which the job would go on from"};
static const struct flag damaged = {"damaged", NULL, FLAG_SWITCH,
                                    0,         0,    "all that are known to be damaged"};
static const struct flag purge = {
    "purge", NULL, FLAG_SWITCH,
    0,       0,    "remove its checkpoints, too, as far as this machine has them"};
static const struct flag all = {
    "all", NULL, FLAG_SWITCH, 0, 0, "all checkpoints in the folder PATH, which no job may have"};
static const struct flag bucket = {
    "bucket", "NAME", FLAG_TEXT, 0, 0, "the bucket (else what the job says, which etcd knows)"};
static const struct flag object_store = {
    "object-store",
    "FILE",
    FLAG_TEXT,
    0,
    0,
    "where the store is, and its key (else FIRN_OBJECT_STORE, else "
    "/etc/firn/object.conf)"};
static const struct flag dtype = {"dtype", "T", FLAG_TEXT, 0, 0, "f32 or bf16 (f32)"};
static const struct flag plan_slots = {
    "slots",   "S[@MEMORY]",
    FLAG_TEXT, 0,
    0,         "slots of each node, and the memory of one: 2, 8@80GiB (else the cluster's own)"};
static const struct flag plan_gpu = {
    "gpu", NULL, FLAG_SWITCH, 0, 0, "the slots of --slots are GPUs, in the job's precision"};
static const struct flag plan_nodes = {"nodes", "N",  FLAG_NUMBER,
                                       1,       4096, "nodes with that many slots each (1)"};
static const struct flag frozen = {"frozen", "L", FLAG_NUMBER,
                                   0,        256, "plan as if the first L layers were frozen"};
static const struct flag prompt = {"prompt", "TEXT", FLAG_TEXT, 0, 0, "what the text begins with"};
static const struct flag tokens = {"tokens", "N",     FLAG_NUMBER,
                                   0,        1000000, "how many tokens to add (256)"};
static const struct flag temperature = {
    "temperature", "T", FLAG_REAL, 0, 1000, "0: always the likeliest token (0.8)"};
static const struct flag top_k = {"top-k", "K",      FLAG_NUMBER,
                                  0,       16777216, "choose among the K likeliest only"};
static const struct flag seed = {"seed", "S",  FLAG_NUMBER,
                                 0,      9e15, "the same seed gives the same text (0)"};
static const struct flag trace_output = {"output", "FILE", FLAG_TEXT,
                                         0,        0,      "write there (else to standard output)"};
static const struct flag trace_steps = {
    "steps", "N|A..B", FLAG_TEXT, 0, 0, "the last N steps, or steps A to B (20)"};
static const struct flag svg = {"svg", "FILE", FLAG_TEXT, 0, 0, "draw the loss curve there"};

const struct command commands[] = {
    {.name = "local up",
     .operands = "",
     .summary = "start a whole cluster on this machine, or the parts of it that do not run",
     .details =
         "An etcd and N firnd, named a, b, c, ..., on free ports of 127.0.0.1, with all data "
         "below DIR.\nReturns when every node is ready. On a folder that has been up before "
         "the data is still there and\nthe jobs go on. Then: eval \"$(firnctl local env "
         "--dir DIR)\"",
     .flags = {&dir, &nodes, &slots, &threads, &memory, &own_disks, &config},
     .run = run_local_up},
    {.name = "local down",
     .operands = "",
     .summary = "stop the local cluster and keep its data",
     .flags = {&dir},
     .run = run_local_down},
    {.name = "local env",
     .operands = "",
     .summary = "print the variables that point firnctl at the local cluster",
     .details = "For a shell: eval \"$(firnctl local env --dir DIR)\"",
     .flags = {&dir},
     .run = run_local_env},
    {.name = "local kill",
     .operands = "NODE",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "kill a node with SIGKILL: its firnd and its workers",
     .details = "No goodbye, no hand-over: what a power cut would do. See that training goes on.",
     .flags = {&dir, &daemon_only, &worker},
     .run = run_local_kill},
    {.name = "local start",
     .operands = "NODE",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "start a node that does not run",
     .flags = {&dir},
     .run = run_local_start},
    {.name = "local status",
     .operands = "",
     .summary = "show the running parts of the local cluster, with process ids and ports",
     .flags = {&dir, &json},
     .run = run_local_status},

    {.name = "job submit",
     .operands = "[FILE]",
     .operands_max = 1,
     .summary = "check a job file and hand the job to the cluster",
     .details =
         "Every mistake in the file is shown with its line. A name that is taken is refused; "
         "--name gives\nanother one. With fewer slots than elastic.devices.min the job waits "
         "and says for what.\nWith --from the job goes on after the step of a checkpoint, to the "
         "bit as the run that wrote it would\nhave; FILE may be left out then: the checkpoint "
         "remembers the job. The nodes must reach PATH.\nWith --wait and --json progress goes to "
         "standard error.",
     .flags = {&name, &wait, &devices, &stages, &replicas, &set, &from_path, &json},
     .run = run_job_submit},
    {.name = "job list",
     .operands = "",
     .summary = "list all jobs with their progress, and the reason of a job that waits",
     .flags = {&json},
     .run = run_job_list},
    {.name = "job show",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "show one job: state, progress, layout, checkpoints",
     .details =
         "\"At risk\" is what would be computed again if everything that runs the job died now: the "
         "steps since\nthe newest checkpoint that is recorded. \"Verified\" is the newest that was "
         "read whole and is good, as far\nas this machine reaches it. The memory of each worker is "
         "what its plan counted, and the most that it has\ntaken since its generation settled, both "
         "without training data.",
     .flags = {&json},
     .run = run_job_show},
    {.name = "job scale",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "ask for another number of slots, or pin stages or replicas",
     .details =
         "The layout changes when the step ends, or within a long step; not a bit of the result "
         "changes. What is\nnot named becomes free again. What no layout of the slots in service "
         "could be is refused with the reason.",
     .flags = {&devices, &stages, &replicas},
     .run = run_job_scale},
    {.name = "job pause",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "checkpoint a job at the next step boundary and free its slots",
     .details =
         "The end of a step is waited for up to 20 failure timeouts, and longer only if the step is "
         "nearly over.\nA longer step is left: the boundary before it is saved, and the job computes "
         "it again when it resumes.",
     .run = run_job_pause},
    {.name = "job resume",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "go on with a paused job, on any slots",
     .run = run_job_resume},
    {.name = "job cancel",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "end a job for good; its checkpoints and metrics stay",
     .run = run_job_cancel},
    {.name = "job remove",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "forget a job that is over; its name is free again",
     .details = "Only what etcd holds is removed: checkpoints and metrics stay on the disks, in a "
                "folder of this\nsubmission alone, which firnctl checkpoint list PATH shows and "
                "firnctl checkpoint remove --all frees.\nWith --purge its checkpoints go, too, "
                "pinned ones included.",
     .flags = {&purge},
     .run = run_job_remove},
    {.name = "job logs",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "print the ends of a job's worker logs",
     .flags = {&node, &slot, &log_bytes, &follow},
     .asks_nodes = true,
     .run = run_job_logs},
    {.name = "job events",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "print a job's events, from all nodes in order of time",
     .flags = {&follow, &json},
     .asks_nodes = true,
     .run = run_job_events},

    {.name = "node list",
     .operands = "",
     .summary = "list the nodes, their slots and the jobs that run there",
     .flags = {&json},
     .run = run_node_list},
    {.name = "node drain",
     .operands = "NODE",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "move all work off a node",
     .details =
         "Before maintenance. `node resume` takes it back. The work moves when the step ends; "
         "within a step that\ntakes longer than 20 failure timeouts, or than the deadline "
         "allows. With a deadline, state that only this\nnode has goes to peers if that fits "
         "into the time that is left, else into a checkpoint.",
     .flags = {&deadline},
     .run = run_node_drain},
    {.name = "node resume",
     .operands = "NODE",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "take a drained node back, and its slots that are out of service",
     .details = "A slot whose workers died again and again is tried again by itself after a while "
                "(`node list` says\nwhen), one that computed wrongly only by this. It may be said "
                "while the node is away.",
     .run = run_node_resume},
    {.name = "watch",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "follow a job: progress, layout and events as they happen",
     .details =
         "On a terminal a live display, elsewhere plain lines. Exits when the job is over: 0 "
         "only when it\nhas completed. Stopping it (q: exit status 1, Ctrl-C) does not stop the job. While etcd is away the "
         "nodes are asked.",
     .asks_nodes = true,
     .run = run_watch},
    {.name = "top",
     .operands = "",
     .summary = "show the workers of all jobs, their work now, and the slow ones",
     .details =
         "Live on a terminal, until q is pressed. A job that has failed is shown with the reason until it is removed. Of "
         "each\nstage that has several replicas the one that is slowest for a lane is marked. "
         "`firnctl metrics\n--json` has it for every step, and elastic.evict_stragglers of the job "
         "file replaces one that stays\nslow.",
     .flags = {&once, &json},
     .asks_nodes = true,
     .run = run_top},
    {.name = "metrics",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "print one line for each committed step, merged from all nodes",
     .details = "A step that two nodes remember with different bits is an error: that must not "
                "happen.",
     .flags = {&follow, &exact, &from, &json},
     .asks_nodes = true,
     .run = run_metrics},
    {.name = "report",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "report on a run: losses, generations, pauses, checkpoints, the curve",
     .flags = {&svg, &json},
     .run = run_report},
    {.name = "trace",
     .operands = "JOB",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "write what each worker did in the last steps, for a trace viewer",
     .details =
         "Spans of computing, waiting, sending, reductions, commits, checkpoints and changes of "
         "layout, as Chrome\ntrace JSON: ui.perfetto.dev opens it. A worker that was killed has "
         "left its spans. They are on the nodes;\neach worker keeps as many as fit into 2 MiB. "
         "Workers of different nodes line up as well as the nodes' clocks.",
     .flags = {&trace_output, &trace_steps},
     .asks_nodes = true,
     .run = run_trace},

    {.name = "checkpoint list",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "list the committed checkpoints of a job, or the checkpoints in a folder",
     .details =
         "PATH is the folder of a job's checkpoints, or the one above it: there what removed "
         "jobs have left is\nlisted, too. firnctl checkpoint show, verify and export read it.",
     .flags = {&json},
     .run = run_checkpoint_list},
    {.name = "checkpoint show",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "show the content of a checkpoint, and the digest of its state",
     .details = "state_digest covers parameters, optimizer and freeze state in canonical order: it "
                "is the same on\nevery layout. PATH is the folder of one checkpoint or of a job's "
                "checkpoints.",
     .flags = {&step, &json},
     .run = run_checkpoint_show},
    {.name = "checkpoint verify",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "read every byte of a checkpoint and compare checksums",
     .details = "A good one is marked as verified; retention never removes the newest that is.",
     .flags = {&step, &json},
     .run = run_checkpoint_verify},
    {.name = "checkpoint pin",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "keep a checkpoint however many newer ones there are",
     .flags = {&step},
     .run = run_checkpoint_pin},
    {.name = "checkpoint unpin",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "let retention remove a pinned checkpoint again",
     .flags = {&step},
     .run = run_checkpoint_unpin},
    {.name = "checkpoint remove",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "remove one checkpoint from the disk and from etcd",
     .details =
         "Not a pinned one, and the newest that is sound only with --force. Other checkpoints lose "
         "nothing. --damaged: all that are known to be damaged; a job that has nothing else to go on "
         "from then begins at step 0 again.\n"
         "With --all every checkpoint in the folder that a removed job has left, and the folder.",
     .flags = {&step, &force, &damaged, &all},
     .run = run_checkpoint_remove},
    {.name = "checkpoint export",
     .operands = "JOB|PATH FOLDER",
     .operands_min = 2,
     .operands_max = 2,
     .summary =
         "write a plain Hugging Face folder: model.safetensors, config.json, and the tokenizer's files",
     .details = "FOLDER must not exist. The job may go on training meanwhile.",
     .flags = {&step, &dtype},
     .run = run_checkpoint_export},
    {.name = "checkpoint fetch",
     .operands = "JOB FOLDER",
     .operands_min = 2,
     .operands_max = 2,
     .summary = "bring a checkpoint back from the object store",
     .details =
         "FOLDER must not exist; it is there when every byte has been compared with the "
         "manifest. What an\nattempt that was cut off has left in FOLDER.part is not fetched "
         "again. With --bucket etcd is not needed,\nand a job that is removed is named JOB.ID, as its "
         "checkpoint folder was.",
     .flags = {&step, &bucket, &object_store},
     .run = run_checkpoint_fetch},
    {.name = "plan",
     .operands = "FILE",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "show the layout that a job would get, and the reason",
     .details =
         "A dry run of the planner with estimated costs, and how often the job goes over its "
         "data, where that is here. Nothing is submitted.",
     .flags = {&plan_slots, &plan_gpu, &plan_nodes, &devices, &stages, &replicas, &set, &frozen,
               &json},
     .run = run_plan},
    {.name = "sample",
     .operands = "JOB|PATH",
     .operands_min = 1,
     .operands_max = 1,
     .summary = "let the model of the newest checkpoint write a text",
     .flags = {&prompt, &tokens, &temperature, &top_k, &seed, &step},
     .run = run_sample},
    {.name = "version", .operands = "", .summary = "print the version", .run = run_version},
    {.name = "help",
     .operands = "[COMMAND]",
     .operands_max = 2,
     .summary = "list the commands, or describe one",
     .run = run_help},
};
const unsigned command_count = ARRAY_COUNT(commands);
