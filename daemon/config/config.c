#include "daemon/config/config.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/flag_value.h"
#include "checkpoint/object/object_settings.h"
#include "daemon/config/config_lines.h"
#include "daemon/config/http_certificate.h"
#include "daemon/config/http_host.h"
#include "daemon/config/node_address.h"
#include "membership/etcd/endpoints.h"
#include "membership/transport/http_token.h"

#define CONFIG_FILE_MAX  ((size_t)1 << 20)
#define FIRST_FLAG       256
#define DAY_NS           (86400 * NS_PER_SECOND)
#define FLAG_SIZE        64
#define FOLDER_TEXT_SIZE (CONFIG_TEXT_SIZE - 128) /* for folders to which paths are appended */

enum kind { TEXT, NUMBER };

/* One row per key: its spelling in the file (a flag has '-' for '_') and its allowed values. */
struct key {
    const char *name;
    enum kind kind;
    unsigned min, max; /* range of numbers */
    const char *help;
};

/* Values of a file or of the flags before they are checked: texts, NULL when absent. */
enum {
    KEY_CLUSTER,
    KEY_NODE,
    KEY_ENDPOINTS,
    KEY_ETCD_USER,
    KEY_ETCD_PASSWORD_FILE,
    KEY_ETCD_CA,
    KEY_ETCD_CERTIFICATE,
    KEY_ETCD_KEY,
    KEY_ADDRESS,
    KEY_LINK_PORT,
    KEY_HTTP,
    KEY_HTTP_NAMES,
    KEY_HTTP_TOKEN,
    KEY_HTTP_CERTIFICATE,
    KEY_HTTP_KEY,
    KEY_HTTP_AUTHORITIES,
    KEY_DOMAIN,
    KEY_DATA_DIR,
    KEY_RUN_DIR,
    KEY_CHECKPOINT_DIR,
    KEY_OBJECT_STORE,
    KEY_WORKER,
    KEY_DEVICE,
    KEY_SLOTS,
    KEY_THREADS,
    KEY_SLOT_MEMORY,
    KEY_FAILURE_TIMEOUT,
    KEY_DRAIN_TIMEOUT,
    KEY_KEEP_FINISHED,
    KEY_LINK_SEALS,
    KEY_LINK_ADDRESSES,
    KEY_DEVICE_SEALS,
    KEY_LOG,
    KEY_COUNT
};

struct spoken {
    char *values[KEY_COUNT];
};

static const struct key keys[KEY_COUNT] = {
    [KEY_CLUSTER] = {"cluster", TEXT, 0, 0,
                     "name of the cluster; part of every etcd key (default: default)"},
    [KEY_NODE] = {"node", TEXT, 0, 0, "name of this node (default: the host name)"},
    [KEY_ENDPOINTS] = {"endpoints", TEXT, 0, 0,
                       "etcd, separated by commas (default: http://127.0.0.1:2379)"},
    [KEY_ETCD_USER] = {"etcd_user", TEXT, 0, 0, "etcd user"},
    [KEY_ETCD_PASSWORD_FILE] = {"etcd_password_file", TEXT, 0, 0,
                                "file that holds the etcd password"},
    [KEY_ETCD_CA] = {"etcd_ca", TEXT, 0, 0, "certificate authority of etcd"},
    [KEY_ETCD_CERTIFICATE] = {"etcd_certificate", TEXT, 0, 0, "client certificate for etcd"},
    [KEY_ETCD_KEY] = {"etcd_key", TEXT, 0, 0, "key of the client certificate"},
    [KEY_ADDRESS] = {"address", TEXT, 0, 0,
                     "address that other nodes reach this one's links by (default: 127.0.0.1)"},
    [KEY_LINK_PORT] = {"link_port", NUMBER, 1, 65535,
                       "port of slot 0's links; slot s uses link_port + s (default: 7600)"},
    [KEY_HTTP] = {"http", TEXT, 0, 0, "address of the HTTP interface (default: 127.0.0.1:7580)"},
    [KEY_HTTP_NAMES] =
        {"http_names", TEXT, 0, 0,
         "names, besides the node's own, that HTTP requests may use for it, separated "
         "by commas; .example.org: all below (default: none)"},
    [KEY_HTTP_TOKEN] = {"http_token", TEXT, 0, 0,
                        "file that holds the token that HTTP requests must show, the same on every "
                        "node (default: none, everybody may read)"},
    [KEY_HTTP_CERTIFICATE] = {"http_certificate", TEXT, 0, 0,
                              "certificate that the HTTP interface shows (default: none, no TLS)"},
    [KEY_HTTP_KEY] = {"http_key", TEXT, 0, 0, "key of that certificate"},
    [KEY_HTTP_AUTHORITIES] = {"http_authorities", TEXT, 0, 0,
                              "certificate authority of the other nodes' HTTP (default: the "
                              "system's)"},
    [KEY_DOMAIN] =
        {"domain", TEXT, 0, 0,
         "rack, zone or host that this node fails together with: copies of checkpoints go "
         "to other domains (default: the node itself)"},
    [KEY_DATA_DIR] = {"data_dir", TEXT, 0, 0,
                      "folder for metrics, logs and checkpoints (default: /var/lib/firn)"},
    [KEY_RUN_DIR] = {"run_dir", TEXT, 0, 0, "folder for sockets (default: /run/firn)"},
    [KEY_CHECKPOINT_DIR] =
        {"checkpoint_dir", TEXT, 0, 0,
         "folder that all nodes share, for jobs without checkpoint.path (default: DATA_DIR/checkpoints)"},
    [KEY_OBJECT_STORE] = {"object_store", TEXT, 0, 0,
                          "file that says where the object store is, with its key (default: the "
                          "credential firn.object that systemd hands over; else none)"},
    [KEY_WORKER] = {"worker", TEXT, 0, 0, "the firn-worker program (default: beside firnd)"},
    [KEY_DEVICE] =
        {"device", TEXT, 0, 0,
         "auto, cpu or cuda: what the slots are (default: auto, the GPUs where there are "
         "some)"},
    [KEY_SLOTS] = {"slots", NUMBER, 1, 64, "CPU slots that this node offers (default: 1)"},
    [KEY_THREADS] = {"threads", NUMBER, 1, 1024, "threads of a slot (default: 1)"},
    [KEY_SLOT_MEMORY] =
        {"slot_memory_mb", NUMBER, 1, 1u << 30,
         "memory that a slot offers to plans, in MiB (default: its share of the machine's)"},
    [KEY_FAILURE_TIMEOUT] =
        {"failure_timeout_ms", NUMBER, 100, 600000,
         "silence after which a peer is given up; all other time-outs follow from it (default: 1500)"},
    [KEY_DRAIN_TIMEOUT] = {"drain_timeout_s", NUMBER, 0, 86400,
                           "how long SIGTERM waits for work to be handed over (default: 60)"},
    [KEY_KEEP_FINISHED] = {"keep_finished_days", NUMBER, 0, 3650,
                           "how long jobs that are over stay listed; 0: for ever (default: 7)"},
    [KEY_LINK_SEALS] =
        {"link_seals", TEXT, 0, 0,
         "authenticated or checksums: what every frame between workers carries; checksums, on a "
         "network that you trust, find damage alone (default: authenticated)"},
    [KEY_LINK_ADDRESSES] =
        {"link_addresses", TEXT, 0, 0,
         "plan or any: whose connections workers accept; any, where addresses between nodes are "
         "translated, takes others that prove to know the key (default: plan)"},
    [KEY_DEVICE_SEALS] =
        {"device_seals", TEXT, 0, 0,
         "none or digests: whether both ends of what NCCL moves from GPU to GPU compare digests of "
         "it before a step counts (default: none)"},
    [KEY_LOG] = {"log", TEXT, 0, 0,
                 "journal or stderr (default: the journal when systemd started firnd)"},
};

/* ---- the file ---- */

#define FILE_FIELD(key, member_index)                                                              \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct spoken,           \
                           values[member_index], 0, CONFIG_TEXT_SIZE - 1)

static const cyaml_schema_field_t file_fields[] = {
    FILE_FIELD("cluster", KEY_CLUSTER),
    FILE_FIELD("node", KEY_NODE),
    FILE_FIELD("endpoints", KEY_ENDPOINTS),
    FILE_FIELD("etcd_user", KEY_ETCD_USER),
    FILE_FIELD("etcd_password_file", KEY_ETCD_PASSWORD_FILE),
    FILE_FIELD("etcd_ca", KEY_ETCD_CA),
    FILE_FIELD("etcd_certificate", KEY_ETCD_CERTIFICATE),
    FILE_FIELD("etcd_key", KEY_ETCD_KEY),
    FILE_FIELD("address", KEY_ADDRESS),
    FILE_FIELD("link_port", KEY_LINK_PORT),
    FILE_FIELD("http", KEY_HTTP),
    FILE_FIELD("http_names", KEY_HTTP_NAMES),
    FILE_FIELD("http_token", KEY_HTTP_TOKEN),
    FILE_FIELD("http_certificate", KEY_HTTP_CERTIFICATE),
    FILE_FIELD("http_key", KEY_HTTP_KEY),
    FILE_FIELD("http_authorities", KEY_HTTP_AUTHORITIES),
    FILE_FIELD("domain", KEY_DOMAIN),
    FILE_FIELD("data_dir", KEY_DATA_DIR),
    FILE_FIELD("run_dir", KEY_RUN_DIR),
    FILE_FIELD("checkpoint_dir", KEY_CHECKPOINT_DIR),
    FILE_FIELD("object_store", KEY_OBJECT_STORE),
    FILE_FIELD("worker", KEY_WORKER),
    FILE_FIELD("device", KEY_DEVICE),
    FILE_FIELD("slots", KEY_SLOTS),
    FILE_FIELD("threads", KEY_THREADS),
    FILE_FIELD("slot_memory_mb", KEY_SLOT_MEMORY),
    FILE_FIELD("failure_timeout_ms", KEY_FAILURE_TIMEOUT),
    FILE_FIELD("drain_timeout_s", KEY_DRAIN_TIMEOUT),
    FILE_FIELD("keep_finished_days", KEY_KEEP_FINISHED),
    FILE_FIELD("link_seals", KEY_LINK_SEALS),
    FILE_FIELD("link_addresses", KEY_LINK_ADDRESSES),
    FILE_FIELD("device_seals", KEY_DEVICE_SEALS),
    FILE_FIELD("log", KEY_LOG),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct spoken, file_fields),
};

static void collect_words(cyaml_log_t level, void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* libcyaml logs an error in several lines: the first is the cause, the others give the place. */
static void collect_words(cyaml_log_t level, void *context, const char *format, va_list arguments)
{
    struct error *error = context;
    size_t used = strlen(error->text);

    if (level < CYAML_LOG_ERROR || used >= sizeof(error->text) - 1)
        return;
    vsnprintf(error->text + used, sizeof(error->text) - used, format, arguments);
    for (char *at = error->text + used; *at; at++)
        if (*at == '\n')
            *at = ' ';
}

static const char *name_at(size_t index)
{
    return index < KEY_COUNT ? keys[index].name : NULL;
}

static cyaml_err_t parse(const struct bytes *text, bool ignores_unknown, struct spoken **ret_spoken,
                         struct error *words)
{
    const cyaml_config_t options = {
        .log_fn = collect_words,
        .log_ctx = words,
        .log_level = CYAML_LOG_ERROR,
        .mem_fn = cyaml_mem,
        .flags = CYAML_CFG_NO_ALIAS | (ignores_unknown ? CYAML_CFG_IGNORE_UNKNOWN_KEYS : 0),
    };

    return cyaml_load_data(text->data, text->size_bytes, &options, &file_schema,
                           (cyaml_data_t **)ret_spoken, NULL);
}

/* @text: the text that was parsed in the end, line by line as in the file */
static int load_file(const char *path, struct bytes *text, struct spoken **ret_spoken,
                     struct error *error)
{
    struct error words = {0}, unread = {0};
    int status = file_read(path, CONFIG_FILE_MAX, text, error);

    if (status)
        return status;
    cyaml_err_t result = parse(text, false, ret_spoken, &words);
    if (result == CYAML_OK)
        return 0;
    if (!config_lines_check(path, (char *)text->data, name_at, error))
        return error_set(error, -EINVAL, "%s: %s: %s", path, cyaml_strerror(result), words.text);
    (void)parse(text, true, ret_spoken, &unread); /* also report the errors in the other keys */
    return -EINVAL;
}

/* ---- the flags ---- */

/* Convert a key to a flag or back: data_dir, data-dir. */
static void respell(const char *name, char from, char to, char *ret_name, size_t size)
{
    snprintf(ret_name, size, "%s", name);
    for (char *at = ret_name; *at; at++)
        *at = *at == from ? to : *at;
}

static void print_help(void)
{
    printf("usage: firnd [--config FILE] [--KEY VALUE ...]\n\n"
           "The elastic training daemon: one a node. Keys of %s, also flags:\n\n"
           "  --config FILE           read this file instead of %s\n"
           "  --check-config          say all that is wrong with the configuration, and end\n"
           "  --version\n  --help\n",
           CONFIG_DEFAULT_FILE, CONFIG_DEFAULT_FILE);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char flag[FLAG_SIZE];
        respell(keys[i].name, '_', '-', flag, sizeof(flag));
        printf("  --%-21s %s\n", flag, keys[i].help);
    }
}

static void make_flags(struct option flags[KEY_COUNT + 5], char names[KEY_COUNT][FLAG_SIZE])
{
    memset(flags, 0, (KEY_COUNT + 5) * sizeof(*flags));
    for (int i = 0; i < KEY_COUNT; i++) {
        respell(keys[i].name, '_', '-', names[i], sizeof(names[i]));
        flags[i] = (struct option){names[i], required_argument, NULL, FIRST_FLAG + i};
    }
    flags[KEY_COUNT] = (struct option){"config", required_argument, NULL, 'c'};
    flags[KEY_COUNT + 1] = (struct option){"help", no_argument, NULL, 'h'};
    flags[KEY_COUNT + 2] = (struct option){"version", no_argument, NULL, 'v'};
    flags[KEY_COUNT + 3] = (struct option){"check-config", no_argument, NULL, 'k'};
}

/* @flag: getopt_long()'s ':' or '?' for @word */
static int refuse_flag(int flag, const char *word, struct error *error)
{
    char key[FLAG_SIZE], flag_meant[FLAG_SIZE];

    if (flag == ':')
        return error_set(error, -EINVAL, "%s: needs a value; firnd --help lists the flags", word);
    respell(word + strspn(word, "-"), '-', '_', key, sizeof(key));
    key[strcspn(key, "=")] = '\0';
    const char *near = config_lines_nearest(key, name_at);
    if (!near)
        return error_set(error, -EINVAL, "%s: no such flag; firnd --help lists the flags", word);
    respell(near, '_', '-', flag_meant, sizeof(flag_meant));
    return error_set(error, -EINVAL, "%s: no such flag; did you mean --%s?", word, flag_meant);
}

static int parse_flags(int argc, char **argv, struct spoken *flags_said, const char **ret_file,
                       bool *ret_only_check, struct error *error)
{
    struct option flags[KEY_COUNT + 5];
    char names[KEY_COUNT][FLAG_SIZE];
    int flag;

    make_flags(flags, names);
    optind = 1;
    opterr = 0;
    while ((flag = getopt_long(argc, argv, ":", flags, NULL)) != -1) {
        if (flag == 'h' || flag == 'v') {
            if (flag == 'h')
                print_help();
            else
                printf("firnd %s\n", FIRN_VERSION);
            return 1;
        }
        if (flag == 'k') {
            *ret_only_check = true;
            continue;
        }
        if (flag_value_forgotten(argv))
            return error_set(
                error, -EINVAL,
                "%s: needs a value, and \"%s\" looks like the next flag; %s=%s if it is meant",
                argv[optind - 2], optarg, argv[optind - 2], optarg);
        if (flag == 'c')
            *ret_file = optarg;
        else if (flag >= FIRST_FLAG)
            flags_said->values[flag - FIRST_FLAG] = optarg;
        else
            return refuse_flag(flag, argv[optind - 1], error);
    }
    if (optind < argc)
        return error_set(error, -EINVAL, "\"%s\" is not a flag; firnd --help lists them",
                         argv[optind]);
    return 0;
}

/* ---- checking ---- */

/* The origin of the values: a file with its text, or the flags. */
struct source {
    const struct spoken *said;
    const char *path, *text; /* NULL: flags */
};

static int refuse(const struct source *source, int key, struct error *error, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

/* Set @error for a wrong value, with its place: "firnd.yaml:3: slots: ..." or "slots: ...". */
static int refuse(const struct source *source, int key, struct error *error, const char *format,
                  ...)
{
    char words[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    if (source->path)
        return config_lines_add(error, "%s:%u: %s: %s", source->path,
                                config_lines_find(source->text, keys[key].name), keys[key].name,
                                words);
    return config_lines_add(error, "%s: %s", keys[key].name, words);
}

static int take_number(const struct source *source, int key, unsigned *ret_value,
                       struct error *error)
{
    const char *text = source->said->values[key];
    char *end;

    if (!text)
        return 0;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || text[0] < '0' || text[0] > '9' || *end || value < keys[key].min ||
        value > keys[key].max)
        return refuse(source, key, error, "\"%.64s\" is not a number from %u to %u", text,
                      keys[key].min, keys[key].max);
    *ret_value = (unsigned)value;
    return 0;
}

static int check_endpoints(const struct source *source, const char *text, struct error *error)
{
    struct endpoints endpoints;
    struct error words;

    if (!endpoints_parse(text, &endpoints, &words))
        return 0;
    return refuse(source, KEY_ENDPOINTS, error, "%s", words.text);
}

static int check_http_names(const struct source *source, const char *text, struct error *error)
{
    struct error words;

    if (!http_names_check(text, &words))
        return 0;
    return refuse(source, KEY_HTTP_NAMES, error, "%s", words.text);
}

/* Other nodes connect to this address, so it must be numeric and lead to this node. */
static int check_address(const struct source *source, int key, const char *text,
                         struct error *error)
{
    struct node_address address;
    int status = key == KEY_ADDRESS ? node_address_host(text, 0, &address)
                                    : node_address_http(text, &address);

    if (status == -EADDRNOTAVAIL)
        return refuse(source, key, error,
                      "\"%s\" leads nobody here; name the address of this node that others reach",
                      text);
    if (status)
        return refuse(source, key, error, "\"%s\" is not a numeric address%s", text,
                      key == KEY_ADDRESS ? ", such as 10.0.0.1 or [fd00::1]"
                                         : " and a port, such as 10.0.0.1:7580 or [fd00::1]:7580");
    return 0;
}

static int take_text(const struct source *source, int key, char *ret_text, size_t size,
                     struct error *error)
{
    const char *text = source->said->values[key];

    if (!text)
        return 0;
    if (strlen(text) >= size)
        return refuse(source, key, error, "longer than %zu characters", size - 1);
    if ((key == KEY_CLUSTER || key == KEY_NODE || key == KEY_DOMAIN) && !name_valid(text))
        return refuse(source, key, error, "\"%s\" is not a name (a-z, 0-9, '.', '_', '-')", text);
    int status = 0;
    if (key == KEY_ADDRESS || key == KEY_HTTP)
        status = check_address(source, key, text, error);
    else if (key == KEY_ENDPOINTS)
        status = check_endpoints(source, text, error);
    else if (key == KEY_HTTP_NAMES)
        status = check_http_names(source, text, error);
    if (!status)
        strcpy(ret_text, text);
    return status;
}

static int take_texts(const struct source *source, struct config *config, struct error *error)
{
    const struct {
        int key;
        char *text;
        size_t size;
    } texts[] = {
        {KEY_CLUSTER, config->cluster, NAME_SIZE},
        {KEY_NODE, config->node, NAME_SIZE},
        {KEY_ENDPOINTS, config->endpoints, CONFIG_TEXT_SIZE},
        {KEY_ETCD_USER, config->etcd_user, CONFIG_TEXT_SIZE},
        {KEY_ETCD_PASSWORD_FILE, config->etcd_password_file, CONFIG_TEXT_SIZE},
        {KEY_ETCD_CA, config->etcd_ca, CONFIG_TEXT_SIZE},
        {KEY_ETCD_CERTIFICATE, config->etcd_certificate, CONFIG_TEXT_SIZE},
        {KEY_ETCD_KEY, config->etcd_key, CONFIG_TEXT_SIZE},
        {KEY_ADDRESS, config->address, ADDRESS_SIZE - 8},
        {KEY_HTTP, config->http, ADDRESS_SIZE},
        {KEY_HTTP_NAMES, config->http_names, CONFIG_TEXT_SIZE},
        {KEY_HTTP_TOKEN, config->http_token, CONFIG_TEXT_SIZE},
        {KEY_HTTP_CERTIFICATE, config->http_certificate, CONFIG_TEXT_SIZE},
        {KEY_HTTP_KEY, config->http_key, CONFIG_TEXT_SIZE},
        {KEY_HTTP_AUTHORITIES, config->http_authorities, CONFIG_TEXT_SIZE},
        {KEY_DOMAIN, config->domain, NAME_SIZE},
        {KEY_DATA_DIR, config->data_dir, FOLDER_TEXT_SIZE},
        {KEY_RUN_DIR, config->run_dir, FOLDER_TEXT_SIZE},
        {KEY_CHECKPOINT_DIR, config->checkpoint_dir, CONFIG_TEXT_SIZE},
        {KEY_OBJECT_STORE, config->object_store, CONFIG_TEXT_SIZE},
        {KEY_WORKER, config->worker, CONFIG_TEXT_SIZE},
    };
    int status = 0;

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        status = MIN(status, take_text(source, texts[i].key, texts[i].text, texts[i].size, error));
    return status;
}

static int take_numbers(const struct source *source, struct config *config, struct error *error)
{
    unsigned failure_ms = (unsigned)(config->failure_timeout_ns / NS_PER_MS);
    unsigned drain_s = (unsigned)(config->drain_timeout_ns / NS_PER_SECOND);
    unsigned keep_days = (unsigned)(config->keep_finished_ns / DAY_NS);
    const struct {
        int key;
        unsigned *value;
    } numbers[] = {
        {KEY_LINK_PORT, &config->link_port}, {KEY_SLOTS, &config->slots},
        {KEY_THREADS, &config->threads},     {KEY_SLOT_MEMORY, &config->slot_memory_mb},
        {KEY_FAILURE_TIMEOUT, &failure_ms},  {KEY_DRAIN_TIMEOUT, &drain_s},
        {KEY_KEEP_FINISHED, &keep_days},
    };
    int status = 0;

    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        status = MIN(status, take_number(source, numbers[i].key, numbers[i].value, error));
    config->failure_timeout_ns = failure_ms * NS_PER_MS;
    config->drain_timeout_ns = drain_s * NS_PER_SECOND;
    config->keep_finished_ns = keep_days * DAY_NS;
    return status;
}

/* Decode a key with two allowed words; the word @set sets *ret_set. */
static int take_word(const struct source *source, int key, const char *unset, const char *set,
                     bool *ret_set, struct error *error)
{
    const char *said = source->said->values[key];

    if (!said)
        return 0;
    if (strcmp(said, set) != 0 && strcmp(said, unset) != 0)
        return refuse(source, key, error, "\"%.64s\" is neither %s nor %s", said, unset, set);
    *ret_set = !strcmp(said, set);
    return 0;
}

static int take_device(const struct source *source, struct config *config, struct error *error)
{
    static const char *const words[] = {
        [CONFIG_DEVICE_AUTO] = "auto", [CONFIG_DEVICE_CPU] = "cpu", [CONFIG_DEVICE_CUDA] = "cuda"};
    const char *said = source->said->values[KEY_DEVICE];

    if (!said)
        return 0;
    for (unsigned i = 0; i < ARRAY_COUNT(words); i++) {
        if (!strcmp(said, words[i])) {
            config->device = (enum config_device)i;
            return 0;
        }
    }
    return refuse(source, KEY_DEVICE, error, "\"%.64s\" is none of auto, cpu and cuda", said);
}

static int take_all(const struct source *source, struct config *config, struct error *error)
{
    const char *log = source->said->values[KEY_LOG];
    int status = take_texts(source, config, error);

    status = MIN(status, take_numbers(source, config, error));
    status = MIN(status, take_device(source, config, error));
    status = MIN(status, take_word(source, KEY_LINK_SEALS, "authenticated", "checksums",
                                   &config->link_checksums, error));
    status = MIN(status, take_word(source, KEY_LINK_ADDRESSES, "plan", "any",
                                   &config->link_any_address, error));
    status = MIN(status, take_word(source, KEY_DEVICE_SEALS, "none", "digests",
                                   &config->device_digests, error));
    if (log && strcmp(log, "journal") && strcmp(log, "stderr"))
        status = refuse(source, KEY_LOG, error, "\"%.64s\" is neither journal nor stderr", log);
    if (!status && log)
        config->journal = !strcmp(log, "journal");
    return status;
}

static void set_defaults(struct config *config)
{
    *config = (struct config){
        .cluster = "default",
        .endpoints = "http://127.0.0.1:2379",
        .address = "127.0.0.1",
        .link_port = 7600,
        .http = "127.0.0.1:7580",
        .data_dir = "/var/lib/firn",
        .run_dir = "/run/firn",
        .slots = 1,
        .threads = 1,
        .failure_timeout_ns = 1500 * NS_PER_MS,
        .drain_timeout_ns = 60 * NS_PER_SECOND,
        .keep_finished_ns = 7 * DAY_NS,
        .journal = getenv("JOURNAL_STREAM"),
    };
    gethostname(config->node, sizeof(config->node) - 1);
    for (char *at = config->node; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
}

/* Default: the firn-worker beside firnd. */
static int find_worker(struct config *config, struct error *error)
{
    if (!config->worker[0]) {
        ssize_t length = readlink("/proc/self/exe", config->worker, sizeof(config->worker) - 16);
        char *slash = length > 0 ? memrchr(config->worker, '/', (size_t)length) : NULL;
        strcpy(slash ? slash + 1 : config->worker, "firn-worker");
    }
    if (access(config->worker, X_OK))
        return error_set(error, -errno, "worker: %s: %s", config->worker, strerror(errno));
    return 0;
}

/* Default: the credential that systemd's LoadCredential= provides. */
static void find_object_store(struct config *config)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    char path[CONFIG_TEXT_SIZE];

    if (config->object_store[0] || !folder ||
        snprintf(path, sizeof(path), "%s/" OBJECT_SETTINGS_CREDENTIAL, folder) >= (int)sizeof(path))
        return;
    if (!access(path, R_OK))
        strcpy(config->object_store, path);
}

/* Report an unreadable token at startup, not at the first request. */
static int check_token(const struct config *config, struct error *error)
{
    char token[HTTP_TOKEN_SIZE];

    if (!config->http_token[0])
        return 0;
    int status = http_token_read(config->http_token, token, error);
    explicit_bzero(token, sizeof(token));
    if (status)
        error_prefix(error, "http_token: ");
    return status;
}

static int check_tls(const struct config *config, struct error *error)
{
    int status = 0;

    if (!config->http_certificate[0] != !config->http_key[0])
        return error_set(error, -EINVAL, "http_certificate and http_key go together: set %s too",
                         config->http_key[0] ? "http_certificate" : "http_key");
    if (config->http_certificate[0])
        status =
            http_certificate_check(config->http_certificate, config->http_key, config->http, error);
    if (!status && config->http_authorities[0])
        status = http_authorities_check(config->http_authorities, error);
    return status;
}

static int check(struct config *config, struct error *error)
{
    if (!name_valid(config->node)) /* not configured */
        return error_set(error, -EINVAL,
                         "node: the host name \"%s\" is not a name (a-z, 0-9, '.', '_', '-'); set "
                         "node",
                         config->node);
    if (config->link_port + config->slots > 65536)
        return error_set(error, -EINVAL, "link_port: %u and %u slots go past port 65535",
                         config->link_port, config->slots);
    if (!config->checkpoint_dir[0])
        snprintf(config->checkpoint_dir, sizeof(config->checkpoint_dir), "%.*s/checkpoints",
                 FOLDER_TEXT_SIZE, config->data_dir);
    find_object_store(config);
    int status = check_token(config, error);
    if (!status)
        status = check_tls(config, error);
    return status ? status : find_worker(config, error);
}

static int take_file(const char *path, struct config *config, struct error *error)
{
    struct spoken *said = NULL;
    struct bytes text = {0};
    int status = load_file(path, &text, &said, error);

    if (said) {
        const struct source source = {said, path, (const char *)text.data};
        status = MIN(status, take_all(&source, config, error));
    }
    for (int i = 0; said && i < KEY_COUNT; i++)
        free(said->values[i]);
    free(said);
    bytes_done(&text);
    return status;
}

int config_load(int argc, char **argv, struct config *ret_config, struct error *error)
{
    struct spoken said = {0};
    const struct source flags = {.said = &said};
    const char *path = NULL;
    bool only_check = false;
    struct config config;
    int status = parse_flags(argc, argv, &said, &path, &only_check, error);

    if (status)
        return status;
    set_defaults(&config);
    if (path || !access(CONFIG_DEFAULT_FILE, F_OK))
        status = take_file(path ? path : CONFIG_DEFAULT_FILE, &config, error);
    if (!status || status == -EINVAL)
        status = MIN(status, take_all(&flags, &config, error));
    if (!status)
        status = check(&config, error);
    if (!status && only_check) {
        printf("%s is good\n", path                                 ? path
                               : !access(CONFIG_DEFAULT_FILE, F_OK) ? CONFIG_DEFAULT_FILE
                                                                    : "the configuration");
        return 1;
    }
    if (!status)
        *ret_config = config;
    return status;
}
