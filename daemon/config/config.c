#include "daemon/config/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/flag_value.h"
#include "checkpoint/object/object_settings.h"
#include "daemon/config/config_file.h"
#include "daemon/config/config_mistakes.h"
#include "daemon/config/config_schema.h"
#include "daemon/config/http_certificate.h"
#include "membership/transport/http_token.h"

#define FIRST_FLAG 256
#define FLAG_SIZE  64

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
           "  --check-config          report all mistakes in the configuration, and exit\n"
           "  --version\n  --help\n",
           CONFIG_DEFAULT_FILE, CONFIG_DEFAULT_FILE);
    for (unsigned i = 0; i < config_key_count; i++) {
        char flag[FLAG_SIZE];
        respell(config_keys[i].name, '_', '-', flag, sizeof(flag));
        printf("  --%-21s %s\n", flag, config_keys[i].help);
    }
}

static void make_flags(struct option flags[CONFIG_KEYS_MAX + 5],
                       char names[CONFIG_KEYS_MAX][FLAG_SIZE])
{
    struct option *flag = flags;

    memset(flags, 0, (CONFIG_KEYS_MAX + 5) * sizeof(*flags));
    for (unsigned i = 0; i < config_key_count; i++) {
        respell(config_keys[i].name, '_', '-', names[i], sizeof(names[i]));
        *flag++ = (struct option){names[i], required_argument, NULL, FIRST_FLAG + (int)i};
    }
    *flag++ = (struct option){"config", required_argument, NULL, 'c'};
    *flag++ = (struct option){"help", no_argument, NULL, 'h'};
    *flag++ = (struct option){"version", no_argument, NULL, 'v'};
    *flag++ = (struct option){"check-config", no_argument, NULL, 'k'};
}

/* @flag: getopt_long()'s ':' or '?' for @word */
static int refuse_flag(int flag, const char *word, struct error *error)
{
    char key[FLAG_SIZE], flag_meant[FLAG_SIZE];

    if (flag == ':')
        return error_set(error, -EINVAL, "%s: needs a value; firnd --help lists the flags", word);
    respell(word + strspn(word, "-"), '-', '_', key, sizeof(key));
    key[strcspn(key, "=")] = '\0';
    const char *near = config_key_nearest(key);
    if (!near)
        return error_set(error, -EINVAL, "%s: no such flag; firnd --help lists the flags", word);
    respell(near, '_', '-', flag_meant, sizeof(flag_meant));
    return error_set(error, -EINVAL, "%s: no such flag; did you mean --%s?", word, flag_meant);
}

/* @ret_values: by the key's index; NULL: flag not given */
static int parse_flags(int argc, char **argv, const char *ret_values[CONFIG_KEYS_MAX],
                       const char **ret_file, bool *ret_only_check, struct error *error)
{
    struct option flags[CONFIG_KEYS_MAX + 5];
    char names[CONFIG_KEYS_MAX][FLAG_SIZE];
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
                "%s: needs a value, but \"%s\" looks like a flag; write %s=%s to use it as the value",
                argv[optind - 2], optarg, argv[optind - 2], optarg);
        if (flag == 'c')
            *ret_file = optarg;
        else if (flag >= FIRST_FLAG)
            ret_values[flag - FIRST_FLAG] = optarg;
        else
            return refuse_flag(flag, argv[optind - 1], error);
    }
    if (optind < argc)
        return error_set(error, -EINVAL, "\"%s\" is not a flag; firnd --help lists them",
                         argv[optind]);
    return 0;
}

/* ---- defaults, and keys together ---- */

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
        .keep_finished_ns = 7 * 86400 * NS_PER_SECOND,
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
                 CONFIG_FOLDER_SIZE, config->data_dir);
    find_object_store(config);
    int status = check_token(config, error);
    if (!status)
        status = check_tls(config, error);
    return status ? status : find_worker(config, error);
}

static void take_flags(const char *const values[CONFIG_KEYS_MAX], struct config *config,
                       struct config_mistakes *mistakes)
{
    char words[CONFIG_MISTAKE_SIZE];

    for (unsigned i = 0; i < config_key_count; i++)
        if (values[i] &&
            config_key_decode(&config_keys[i], values[i], config, words, sizeof(words)))
            config_mistakes_add(mistakes, CONFIG_MISTAKE_NOWHERE, "%s: %s", config_keys[i].name,
                                words);
}

int config_load(int argc, char **argv, struct config *ret_config, struct error *error)
{
    const char *values[CONFIG_KEYS_MAX] = {NULL};
    struct config_mistakes mistakes = {.path = NULL};
    bool only_check = false;
    struct config config;
    int status = parse_flags(argc, argv, values, &mistakes.path, &only_check, error);

    if (status)
        return status;
    set_defaults(&config);
    if (!mistakes.path && !access(CONFIG_DEFAULT_FILE, F_OK))
        mistakes.path = CONFIG_DEFAULT_FILE;
    if (mistakes.path)
        status = config_file_read(&config, &mistakes, error);
    if (status)
        return status;
    take_flags(values, &config, &mistakes);
    status = config_mistakes_result(&mistakes, error);
    if (!status)
        status = check(&config, error);
    if (!status && only_check) {
        printf("%s is good\n", mistakes.path ? mistakes.path : "the configuration");
        return 1;
    }
    if (!status)
        *ret_config = config;
    return status;
}
