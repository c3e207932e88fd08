#include "daemon/config/config_schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/config/http_host.h"
#include "daemon/config/node_address.h"
#include "elastic/job/edit_distance.h"
#include "membership/etcd/endpoints.h"

#define DAY_NS (86400 * NS_PER_SECOND)

static int check_name(const char *text, struct error *error)
{
    if (name_valid(text))
        return 0;
    return error_set(error, -EINVAL, "\"%s\" is not a name (a-z, 0-9, '.', '_', '-')", text);
}

static int check_endpoints(const char *text, struct error *error)
{
    struct endpoints endpoints;

    return endpoints_parse(text, &endpoints, error);
}

/* Other nodes connect to this address, so it must be numeric and lead to this node. */
static int refuse_address(int status, const char *text, const char *example, struct error *error)
{
    if (status == -EADDRNOTAVAIL)
        return error_set(
            error, -EINVAL,
            "\"%s\" is not an address of one node; name the address at which other nodes reach this "
            "node",
            text);
    return error_set(error, -EINVAL, "\"%s\" is not a numeric address%s", text, example);
}

static int check_address(const char *text, struct error *error)
{
    struct node_address address;
    int status = node_address_host(text, 0, &address);

    return status ? refuse_address(status, text, ", such as 10.0.0.1 or [fd00::1]", error) : 0;
}

static int check_http(const char *text, struct error *error)
{
    struct node_address address;
    int status = node_address_http(text, &address);

    return status ? refuse_address(status, text,
                                   " and a port, such as 10.0.0.1:7580 or [fd00::1]:7580", error)
                  : 0;
}

#define AT(field) offsetof(struct config, field), sizeof(((struct config *)NULL)->field)

/* clang-format off */
const struct config_key config_keys[] = {
    {"cluster", CONFIG_TYPE_TEXT, AT(cluster), .check = check_name,
     .help = "name of the cluster; part of every etcd key (default: default)"},
    {"node", CONFIG_TYPE_TEXT, AT(node), .check = check_name,
     .help = "name of this node (default: the host name)"},
    {"endpoints", CONFIG_TYPE_TEXT, AT(endpoints), .check = check_endpoints,
     .help = "etcd, separated by commas (default: http://127.0.0.1:2379)"},
    {"etcd_user", CONFIG_TYPE_TEXT, AT(etcd_user),
     .help = "etcd user"},
    {"etcd_password_file", CONFIG_TYPE_TEXT, AT(etcd_password_file),
     .help = "file that holds the etcd password"},
    {"etcd_ca", CONFIG_TYPE_TEXT, AT(etcd_ca),
     .help = "certificate authority of etcd"},
    {"etcd_certificate", CONFIG_TYPE_TEXT, AT(etcd_certificate),
     .help = "client certificate for etcd"},
    {"etcd_key", CONFIG_TYPE_TEXT, AT(etcd_key),
     .help = "key of the client certificate"},
    {"address", CONFIG_TYPE_TEXT, offsetof(struct config, address), .size = ADDRESS_SIZE - 8, .check = check_address,
     .help = "address that other nodes reach this one's links by (default: 127.0.0.1)"},
    {"link_port", CONFIG_TYPE_UNSIGNED, AT(link_port), .min = 1, .max = 65535,
     .help = "port of slot 0's links; slot s uses link_port + s (default: 7600)"},
    {"http", CONFIG_TYPE_TEXT, AT(http), .check = check_http,
     .help = "address of the HTTP interface (default: 127.0.0.1:7580)"},
    {"http_names", CONFIG_TYPE_TEXT, AT(http_names), .check = http_names_check,
     .help = "names, besides the node's own, that HTTP requests may use for it, separated by commas; .example.org: all below (default: none)"},
    {"http_token", CONFIG_TYPE_TEXT, AT(http_token),
     .help = "file that holds the token that HTTP requests must show, the same on every node (default: none, everybody may read)"},
    {"http_certificate", CONFIG_TYPE_TEXT, AT(http_certificate),
     .help = "certificate that the HTTP interface shows (default: none, no TLS)"},
    {"http_key", CONFIG_TYPE_TEXT, AT(http_key),
     .help = "key of that certificate"},
    {"http_authorities", CONFIG_TYPE_TEXT, AT(http_authorities),
     .help = "certificate authority of the other nodes' HTTP (default: the system's)"},
    {"domain", CONFIG_TYPE_TEXT, AT(domain), .check = check_name,
     .help = "rack, zone or host that this node fails together with: copies of checkpoints go to other domains (default: the node itself)"},
    {"data_dir", CONFIG_TYPE_TEXT, offsetof(struct config, data_dir), .size = CONFIG_FOLDER_SIZE,
     .help = "folder for metrics, logs and checkpoints (default: /var/lib/firn)"},
    {"run_dir", CONFIG_TYPE_TEXT, offsetof(struct config, run_dir), .size = CONFIG_FOLDER_SIZE,
     .help = "folder for sockets (default: /run/firn)"},
    {"checkpoint_dir", CONFIG_TYPE_TEXT, AT(checkpoint_dir),
     .help = "folder that all nodes share, for jobs without checkpoint.path (default: DATA_DIR/checkpoints)"},
    {"object_store", CONFIG_TYPE_TEXT, AT(object_store),
     .help = "file that says where the object store is, with its key (default: the credential firn.object that systemd hands over; else none)"},
    {"worker", CONFIG_TYPE_TEXT, AT(worker),
     .help = "the firn-worker program (default: beside firnd)"},
    {"device", CONFIG_TYPE_CHOICE, AT(device), .words = {[CONFIG_DEVICE_AUTO] = "auto", [CONFIG_DEVICE_CPU] = "cpu", [CONFIG_DEVICE_CUDA] = "cuda"},
     .help = "auto, cpu or cuda: the kind of the slots (default: auto, GPUs if there are any)"},
    {"slots", CONFIG_TYPE_UNSIGNED, AT(slots), .min = 1, .max = 64,
     .help = "CPU slots that this node offers (default: 1)"},
    {"threads", CONFIG_TYPE_UNSIGNED, AT(threads), .min = 1, .max = 1024,
     .help = "threads of a slot (default: 1)"},
    {"slot_memory_mb", CONFIG_TYPE_UNSIGNED, AT(slot_memory_mb), .min = 1, .max = 1u << 30,
     .help = "memory that a slot offers to plans, in MiB (default: its share of the machine's)"},
    {"failure_timeout_ms", CONFIG_TYPE_PERIOD, AT(failure_timeout_ns), .min = 100, .max = 600000, .unit_ns = NS_PER_MS,
     .help = "silence after which a peer counts as dead; all other timeouts derive from it (default: 1500)"},
    {"drain_timeout_s", CONFIG_TYPE_PERIOD, AT(drain_timeout_ns), .min = 0, .max = 86400, .unit_ns = NS_PER_SECOND,
     .help = "time that SIGTERM waits for work to be handed over (default: 60)"},
    {"keep_finished_days", CONFIG_TYPE_PERIOD, AT(keep_finished_ns), .min = 0, .max = 3650, .unit_ns = DAY_NS,
     .help = "time that jobs that are over stay listed; 0: for ever (default: 7)"},
    {"link_seals", CONFIG_TYPE_SWITCH, AT(link_checksums), .words = {"authenticated", "checksums"}, .on = 1,
     .help = "authenticated or checksums: the seal of every frame between workers; checksums detect only damage, for trusted networks (default: authenticated)"},
    {"link_addresses", CONFIG_TYPE_SWITCH, AT(link_any_address), .words = {"plan", "any"}, .on = 1,
     .help = "plan or any: the addresses from which workers accept connections; any accepts every peer that proves knowledge of the key, for networks with address translation (default: plan)"},
    {"device_seals", CONFIG_TYPE_SWITCH, AT(device_digests), .words = {"none", "digests"}, .on = 1,
     .help = "none or digests: the check of NCCL's traffic from GPU to GPU before a step counts; digests, both ends compare them (default: none)"},
    {"log", CONFIG_TYPE_SWITCH, AT(journal), .words = {"journal", "stderr"}, .on = 0,
     .help = "journal or stderr (default: the journal when systemd started firnd)"},
};
/* clang-format on */
const unsigned config_key_count = ARRAY_COUNT(config_keys);
static_assert(ARRAY_COUNT(config_keys) <= CONFIG_KEYS_MAX, "the flags have room for all keys");

const struct config_key *config_key_find(const char *name)
{
    for (unsigned i = 0; i < config_key_count; i++)
        if (strcmp(name, config_keys[i].name) == 0)
            return &config_keys[i];
    return NULL;
}

const char *config_key_nearest(const char *written)
{
    const char *nearest = NULL;
    unsigned least = EDIT_DISTANCE_WORD_MAX;

    for (unsigned i = 0; i < config_key_count; i++) {
        const char *name = config_keys[i].name;
        unsigned distance = edit_distance(written, name);
        if (distance < least && edit_distance_is_close(written, name)) {
            nearest = name;
            least = distance;
        }
    }
    return nearest;
}

static int refuse(char *ret_words, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(char *ret_words, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(ret_words, size, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

static int decode_text(const struct config_key *key, const char *text, char *field, char *ret_words,
                       size_t words_size)
{
    struct error error = {0};

    if (strlen(text) >= key->size)
        return refuse(ret_words, words_size, "longer than %zu characters", key->size - 1);
    if (key->check && key->check(text, &error))
        return refuse(ret_words, words_size, "%s", error.text);
    strcpy(field, text);
    return 0;
}

static int decode_number(const struct config_key *key, const char *text, void *field,
                         char *ret_words, size_t words_size)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || text[0] < '0' || text[0] > '9' || *end || value < key->min || value > key->max)
        return refuse(ret_words, words_size, "\"%.64s\" is not a number from %u to %u", text,
                      key->min, key->max);
    if (key->type == CONFIG_TYPE_PERIOD)
        *(uint64_t *)field = value * key->unit_ns;
    else
        *(unsigned *)field = (unsigned)value;
    return 0;
}

static int decode_word(const struct config_key *key, const char *text, void *field, char *ret_words,
                       size_t words_size)
{
    const char *const *words = key->words;

    for (unsigned i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            if (key->type == CONFIG_TYPE_SWITCH)
                *(bool *)field = i == key->on;
            else
                *(unsigned *)field = i;
            return 0;
        }
    if (words[2])
        return refuse(ret_words, words_size, "\"%.64s\" is none of %s, %s and %s", text, words[0],
                      words[1], words[2]);
    return refuse(ret_words, words_size, "\"%.64s\" is neither %s nor %s", text, words[0],
                  words[1]);
}

int config_key_decode(const struct config_key *key, const char *text, struct config *config,
                      char *ret_words, size_t words_size)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case CONFIG_TYPE_TEXT:
        return decode_text(key, text, field, ret_words, words_size);
    case CONFIG_TYPE_UNSIGNED:
    case CONFIG_TYPE_PERIOD:
        return decode_number(key, text, field, ret_words, words_size);
    case CONFIG_TYPE_CHOICE:
    case CONFIG_TYPE_SWITCH:
        return decode_word(key, text, field, ret_words, words_size);
    }
    return refuse(ret_words, words_size, "no type of a key");
}
