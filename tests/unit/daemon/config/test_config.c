/*
 * Tests of the configuration: defaults, then the file, then the flags; every mistake is reported
 * with its position; and the installed example is correct.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "daemon/config/config.h"

#define ARGUMENTS_MAX 16

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-config-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/firnd.yaml", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/*
 * Load as if started with these arguments; the worker program exists, so that it is not reported as
 * missing.
 */
static int load(struct config *config, struct error *error, const char *const *more)
{
    char *arguments[ARGUMENTS_MAX] = {"firnd", "--config", path, "--worker", "/bin/true"};
    int count = 5;

    for (; more && *more; more++)
        arguments[count++] = (char *)(uintptr_t)*more;
    arguments[count] = NULL;
    *error = (struct error){0};
    return config_load(count, arguments, config, error);
}

#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_defaults(const struct config *config)
{
    char host[NAME_SIZE] = "";

    gethostname(host, sizeof(host) - 1);
    assert_string_equal(config->cluster, "default");
    assert_true(!strcasecmp(config->node, host));
    assert_string_equal(config->endpoints, "http://127.0.0.1:2379");
    assert_string_equal(config->etcd_user, "");
    assert_string_equal(config->address, "127.0.0.1");
    assert_int_equal(config->link_port, 7600);
    assert_string_equal(config->http, "127.0.0.1:7580");
    assert_string_equal(config->data_dir, "/var/lib/firn");
    assert_string_equal(config->run_dir, "/run/firn");
    assert_string_equal(config->checkpoint_dir, "/var/lib/firn/checkpoints");
    assert_int_equal(config->slots, 1);
    assert_int_equal(config->threads, 1);
    assert_int_equal(config->slot_memory_mb, 0);
    assert_int_equal(config->failure_timeout_ns, 1500 * NS_PER_MS);
    assert_int_equal(config->drain_timeout_ns, 60 * NS_PER_SECOND);
    assert_int_equal(config->keep_finished_ns, 7 * 86400 * NS_PER_SECOND);
}

static void test_defaults(void **state)
{
    struct config config;
    struct error error;

    (void)state;
    unsetenv("JOURNAL_STREAM");
    write_file("# nothing is set\n");
    assert_int_equal(load(&config, &error, NULL), 0);
    check_defaults(&config);
    assert_false(config.journal);
}

static void test_journal_under_systemd(void **state)
{
    struct config config;
    struct error error;

    (void)state;
    write_file("");
    setenv("JOURNAL_STREAM", "8:12345", 1);
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_true(config.journal);
    assert_int_equal(load(&config, &error, FLAGS("--log", "stderr")), 0);
    assert_false(config.journal);
    unsetenv("JOURNAL_STREAM");
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_false(config.journal);
}

static void test_file_over_defaults(void **state)
{
    struct config config;
    struct error error;

    (void)state;
    write_file("cluster: alps\n"
               "node: a.1\n"
               "endpoints: https://e1:2379,https://e2:2379\n"
               "etcd_user: firn\n"
               "etcd_password_file: /p\n"
               "etcd_ca: /ca\n"
               "etcd_certificate: /cert\n"
               "etcd_key: /key\n"
               "address: 10.0.0.1\n"
               "link_port: 8000\n"
               "http: 10.0.0.1:80\n"
               "data_dir: /data\n"
               "run_dir: /r\n"
               "object_store: /o\n"
               "slots: 64\n"
               "threads: 1024\n"
               "slot_memory_mb: 100\n"
               "failure_timeout_ms: 100\n"
               "drain_timeout_s: 0\n"
               "keep_finished_days: 3650\n"
               "log: journal\n");
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_string_equal(config.cluster, "alps");
    assert_string_equal(config.node, "a.1");
    assert_string_equal(config.endpoints, "https://e1:2379,https://e2:2379");
    assert_string_equal(config.etcd_user, "firn");
    assert_string_equal(config.etcd_password_file, "/p");
    assert_string_equal(config.etcd_ca, "/ca");
    assert_string_equal(config.etcd_certificate, "/cert");
    assert_string_equal(config.etcd_key, "/key");
    assert_string_equal(config.address, "10.0.0.1");
    assert_int_equal(config.link_port, 8000);
    assert_string_equal(config.http, "10.0.0.1:80");
    assert_string_equal(config.data_dir, "/data");
    assert_string_equal(config.checkpoint_dir, "/data/checkpoints");
    assert_string_equal(config.run_dir, "/r");
    assert_string_equal(config.object_store, "/o");
    assert_int_equal(config.slots, 64);
    assert_int_equal(config.threads, 1024);
    assert_int_equal(config.slot_memory_mb, 100);
    assert_int_equal(config.failure_timeout_ns, 100 * NS_PER_MS);
    assert_int_equal(config.drain_timeout_ns, 0);
    assert_int_equal(config.keep_finished_ns, 3650 * 86400 * NS_PER_SECOND);
    assert_true(config.journal);
}

static void test_object_store_from_systemd(void **state)
{
    struct config config;
    struct error error;
    char credentials[] = "/tmp/firn-credentials-XXXXXX", file[64];

    (void)state;
    write_file("cluster: alps\n");
    assert_non_null(mkdtemp(credentials));
    setenv("CREDENTIALS_DIRECTORY", credentials, 1);
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_string_equal(config.object_store, "");
    snprintf(file, sizeof(file), "%s/firn.object", credentials);
    fclose(fopen(file, "w"));
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_string_equal(config.object_store, file);
    assert_int_equal(load(&config, &error, FLAGS("--object-store", "/mine")), 0);
    assert_string_equal(config.object_store, "/mine");
    unsetenv("CREDENTIALS_DIRECTORY");
    unlink(file);
    rmdir(credentials);
}

static void test_flags_over_file(void **state)
{
    struct config config;
    struct error error;

    (void)state;
    write_file("cluster: alps\nslots: 2\ncheckpoint_dir: /c\nfailure_timeout_ms: 700\n");
    assert_int_equal(
        load(&config, &error, FLAGS("--cluster", "andes", "--slots", "3", "--drain-timeout-s=5")),
        0);
    assert_string_equal(config.cluster, "andes");
    assert_int_equal(config.slots, 3);
    assert_string_equal(config.checkpoint_dir, "/c");
    assert_int_equal(config.failure_timeout_ns, 700 * NS_PER_MS);
    assert_int_equal(config.drain_timeout_ns, 5 * NS_PER_SECOND);
}

static const char *text_of(const struct config *config, size_t offset)
{
    return (const char *)config + offset;
}

/* The ways to write a value that YAML offers, and those that look like another type. */
static void test_texts_of_a_file(void **state)
{
#define USER   offsetof(struct config, etcd_user)
#define DOMAIN offsetof(struct config, domain)
    static const struct {
        const char *file;
        size_t field;
        const char *value;
    } cases[] = {
        {"etcd_user: on\n", USER, "on"},
        {"etcd_user: null\n", USER, "null"},
        {"etcd_user: ~\n", USER, "~"},
        {"etcd_user: true\n", USER, "true"},
        {"etcd_user: 0x10\n", USER, "0x10"},
        {"etcd_user: 007\n", USER, "007"},
        {"etcd_user: 1e3\n", USER, "1e3"},
        {"etcd_user: .inf\n", USER, ".inf"},
        {"etcd_user: -1\n", USER, "-1"},
        {"etcd_user: 2026-01-01\n", USER, "2026-01-01"},
        {"etcd_user: '12'\n", USER, "12"},
        {"etcd_user: \"12\"\n", USER, "12"},
        {"etcd_user:\n", USER, ""},
        {"etcd_user: ''\n", USER, ""},
        {"etcd_user: # none\n", USER, ""},
        {"etcd_user: a b # c\n", USER, "a b"},
        {"etcd_user: a# c\n", USER, "a# c"},
        {"etcd_user: a:b\n", USER, "a:b"},
        {"etcd_user: fd00::1\n", USER, "fd00::1"},
        {"etcd_user: 'it''s'\n", USER, "it's"},
        {"etcd_user: \"\\u00e9\\n\"\n", USER, "\xc3\xa9\n"},
        {"etcd_user: |\n  a\n", USER, "a\n"},
        {"etcd_user: >-\n  a\n  b\n", USER, "a b"},
        {"etcd_user: a\n  b\n", USER, "a b"},
        {"etcd_user: 'a\n  b'\n", USER, "a b"},
        {"etcd_user: &a b\n", USER, "b"},
        {"etcd_user: !!int 12\n", USER, "12"},
        {"etcd_user: !x 12\n", USER, "12"},
        {"domain: 12\n", DOMAIN, "12"},
        {"domain: null\n", DOMAIN, "null"},
        {"endpoints: http://a:1,\n  http://b:2\n", offsetof(struct config, endpoints),
         "http://a:1, http://b:2"},
        {"endpoints: 'http://[::1]:2379'\n", offsetof(struct config, endpoints),
         "http://[::1]:2379"},
        {"address: \"[fd00::1]\"\n", offsetof(struct config, address), "[fd00::1]"},
        {"http: \"[fd00::1]:80\"\n", offsetof(struct config, http), "[fd00::1]:80"},
        {"http_names: a,.b\n", offsetof(struct config, http_names), "a,.b"},
        {"data_dir:\n", offsetof(struct config, checkpoint_dir), "/checkpoints"},
        {"checkpoint_dir:\n", offsetof(struct config, checkpoint_dir), "/var/lib/firn/checkpoints"},
    };
    struct config config;
    struct error error;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        write_file(cases[i].file);
        if (load(&config, &error, NULL))
            fail_msg("%s: %s", cases[i].file, error.text);
        if (strcmp(text_of(&config, cases[i].field), cases[i].value) != 0)
            fail_msg("%s: \"%s\"", cases[i].file, text_of(&config, cases[i].field));
    }
}

/* The shapes that a file may have, all with two slots and @threads. */
static void test_shapes_of_a_file(void **state)
{
    static const struct {
        const char *file;
        unsigned threads;
    } cases[] = {
        {"slots: 2\n", 1},
        {"slots: 2", 1},
        {"slots: 02\nthreads: 010\n", 10},
        {"slots: '2'\nthreads: \"3\"\n", 3},
        {"slots:\t2\t\nthreads: 3 \n", 3},
        {"slots:\n  2\nthreads: |-\n  3\n", 3},
        {"slots : 2\n'threads': 3\n", 3},
        {"? slots\n: 2\n", 1},
        {"  slots: 2\n  threads: 3\n", 3},
        {"{slots: 2, threads: 3}\n", 3},
        {"{\n  \"slots\": 2,\n  \"threads\": \"3\"\n}\n", 3},
        {"slots: 2\r\nthreads: 3\r\n", 3},
        {"slots: 2\rthreads: 3\r", 3},
        {"\xef\xbb\xbfslots: 2\n", 1},
        {"---\nslots: 2\n...\n", 1},
        {"%YAML 1.1\n---\nslots: 2\n", 1},
        {"slots: 2\n---\nthreads: 0\nslot: 1\n", 1}, /* one document counts */
        {"slots: 2\n---\n[\n", 1},
        {"&a slots: 2\n", 1},
        {"--- &a\nslots: 2\n", 1},
        {"!!map {slots: 2}\n", 1},
        {"!x\nslots: 2\n", 1},
    };
    static const char wide[] = "\xff\xfes\0l\0o\0t\0s\0:\0 \0"
                               "2"; /* UTF-16, its last zero implied */
    struct config config;
    struct error error;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        write_file(cases[i].file);
        if (load(&config, &error, NULL))
            fail_msg("%s: %s", cases[i].file, error.text);
        assert_int_equal(config.slots, 2);
        assert_int_equal(config.threads, cases[i].threads);
    }
    assert_int_equal(file_replace(path, wide, sizeof(wide), 0600, NULL), 0);
    assert_int_equal(load(&config, &error, NULL), 0);
    assert_int_equal(config.slots, 2);
}

/* Check that a mistake is refused: nothing is written, and the error has the words @words. */
static void check_refused(const char *text, const char *const *flags, const char *words)
{
    struct config config, before;
    struct error error;

    memset(&config, 0x5a, sizeof(config));
    before = config;
    write_file(text);
    assert_int_equal(load(&config, &error, flags), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_memory_equal(&config, &before, sizeof(config));
}

static void test_mistakes_in_the_file(void **state)
{
    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"slots: x\n", "firnd.yaml:1: slots: \"x\" is not a number from 1 to 64"},
        {"cluster: a\n\nslots: 0\n", "firnd.yaml:3: slots: \"0\" is not"},
        {"slots: 65\n", "firnd.yaml:1: slots: \"65\" is not"},
        {"slots: -1\n", "firnd.yaml:1: slots: \"-1\" is not"},
        {"slots: \"+3\"\n", "firnd.yaml:1: slots: \"+3\" is not"},
        {"slots: -18446744073709551615\n", "firnd.yaml:1: slots:"}, /* 1, to strtoul() */
        {"slots: 1.5\n", "firnd.yaml:1: slots: \"1.5\" is not"},
        {"slots: 99999999999999999999\n", "firnd.yaml:1: slots:"},
        {"slots:\n", "firnd.yaml:1: slots: \"\" is not"},
        {"# slots: 3\n  slots: [1, 2]\n", "firnd.yaml:2: slots: needs one value; [ begins a list"},
        {"threads: 0\n", "firnd.yaml:1: threads:"},
        {"device: gpu\n", "firnd.yaml:1: device:"},
        {"link_port: 70000\n", "firnd.yaml:1: link_port:"},
        {"failure_timeout_ms: 99\n", "firnd.yaml:1: failure_timeout_ms: \"99\" is not"},
        {"cluster: a\n# slot: 1\nslot: 1\n",
         "firnd.yaml:3: slot: no such key; did you mean slots?"},
        {"slots: 1\nslots: 2\n", "firnd.yaml:2: slots stands here a second time, first on line 1"},
        {"slots: 1\naddress: [fd00::1]\n",
         "firnd.yaml:2: address: needs one value; [ begins a list"},
        {"node: Not A Name\n", "firnd.yaml:1: node: \"Not A Name\" is not a name"},
        {"slots: 1\ncluster: ../x\n", "firnd.yaml:2: cluster: \"../x\" is not a name"},
        {"http_names: gpu7.example.org,http://gpu8\n",
         "firnd.yaml:1: http_names: \"http://gpu8\" is not a host name"},
        {"address: gpu7.example.org\n",
         "firnd.yaml:1: address: \"gpu7.example.org\" is not a numeric"},
        {"address: 10.0.0.1:7600\n", "firnd.yaml:1: address: \"10.0.0.1:7600\" is not a numeric"},
        {"address: fd00::1\n", "such as 10.0.0.1 or [fd00::1]"},
        {"address: 0.0.0.0\n", "firnd.yaml:1: address: \"0.0.0.0\" is not an address of one node"},
        {"http: 0.0.0.0:7580\n", "firnd.yaml:1: http: \"0.0.0.0:7580\" is not an address"},
        {"http: \"[::]:7580\"\n", "firnd.yaml:1: http: \"[::]:7580\" is not an address"},
        {"http: fd00::1:7580\n", "such as 10.0.0.1:7580 or [fd00::1]:7580"},
        {"http: localhost:7580\n", "firnd.yaml:1: http: \"localhost:7580\" is not a numeric"},
        {"http: 127.0.0.1\n", "firnd.yaml:1: http: \"127.0.0.1\" is not a numeric"},
        {"http: \"127.0.0.1:\"\n", "firnd.yaml:1: http:"},
        {"http: 127.0.0.1:99999\n", "firnd.yaml:1: http:"},
        {"endpoints: nix\n", "firnd.yaml:1: endpoints: \"nix\" is not an etcd endpoint; write"},
        {"slots: 1\nendpoints: http://a:1,http://b\n",
         "firnd.yaml:2: endpoints: \"http://b\" says no port; write http://b:2379"},
        {"endpoints:\n", "firnd.yaml:1: endpoints: no etcd endpoint is given"},
        {"log: syslog\n", "firnd.yaml:1: log: \"syslog\" is neither journal nor stderr"},
        {"link_seals: none\n",
         "firnd.yaml:1: link_seals: \"none\" is neither authenticated nor checksums"},
        {"link_addresses: nat\n", "firnd.yaml:1: link_addresses: \"nat\" is neither plan nor any"},
        {"device_seals: authenticated\n",
         "firnd.yaml:1: device_seals: \"authenticated\" is neither none nor digests"},
        {"link_port: 65530\nslots: 8\n", "link_port: 65530 and 8 slots go past port 65535"},
        {"- slots\n", "firnd.yaml:"},
        {"slots: 1\n\tthreads: 2\nslot: 3\n", "firnd.yaml:2: the line begins with a tab"},
        {"slots: 1\n\tthreads: 2\nslot: 3\n", "firnd.yaml:3: slot: no such key"},
        {"slots: 1\ncluster: \"a\nthreads: 3\n", "firnd.yaml:2: while scanning a quoted"},
        {"node: &n a\ncluster: *n\n", "firnd.yaml:2: aliases (*) are not known here"},
        {"http: [fd00::1]:7580\n", "firnd.yaml:1: http: needs one value; [ begins a list"},
        {"slots: 1\n'slots': 2\n", "firnd.yaml:2: slots stands here a second time"},
        {"{slots: 1, slot: 2}\n", "firnd.yaml:1: slot: no such key; did you mean slots?"},
        {"? [1]\n: 2\n", "firnd.yaml:1: a key must be a word"},
        {"<<: {slots: 1}\n", "firnd.yaml:1: merge keys"},
        {"slots: 1\nnode: \"a\\0b\"\n", "firnd.yaml:2: a text with a zero byte"},
        {"slots: 1\nnode: \xff\n", "firnd.yaml:2: invalid leading UTF-8 octet"},
        {"slots=1\n", "firnd.yaml:1: the file has no keys; write \"key: value\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++)
        check_refused(mistakes[i].text, NULL, mistakes[i].words);
}

static void make_token(char path_of_it[128])
{
    snprintf(path_of_it, 128, "%s/token", folder);
    assert_int_equal(file_replace(path_of_it, "0123456789abcdef\n", 17, 0600, NULL), 0);
}

static void test_a_token_that_cannot_be_used(void **state)
{
    char token[128];
    struct config config;
    struct error error;

    (void)state;
    write_file("http_token: /nowhere/token\n");
    assert_int_equal(load(&config, &error, NULL), -ENOENT);
    assert_memory_equal(error.text, "http_token: ", 12);
    snprintf(token, sizeof(token), "%s/token", folder);
    assert_int_equal(file_replace(token, "short\n", 6, 0600, NULL), 0);
    check_refused("", FLAGS("--http-token", token), "token does not hold a token: one line of 16");
    make_token(token);
    assert_int_equal(load(&config, &error, FLAGS("--http-token", token)), 0);
    assert_string_equal(config.http_token, token);
    unlink(token);
}

static void test_a_certificate_without_its_key(void **state)
{
    (void)state;
    check_refused("http_certificate: /x/a.pem\n", NULL, "go together: set http_key too");
    check_refused("http_key: /x/a.key\n", NULL, "go together: set http_certificate too");
    check_refused("http_certificate: /x/a.pem\nhttp_key: /x/a.key\n", NULL,
                  "http_certificate: /x/a.pem: No such file");
    check_refused("http_authorities: /x/ca.pem\n", NULL,
                  "http_authorities: /x/ca.pem: No such file");
}

static void test_mistakes_in_flags(void **state)
{
    (void)state;
    check_refused("", FLAGS("--slots", "x"), "slots: \"x\" is not a number from 1 to 64");
    check_refused("", FLAGS("--slots", "-1"), "slots: \"-1\" is not a number");
    check_refused("", FLAGS("--slat", "1"), "--slat: no such flag");
    check_refused("", FLAGS("--datadir=/x"),
                  "--datadir=/x: no such flag; did you mean --data-dir?");
    check_refused("", FLAGS("--frobnicate"), "firnd --help lists the flags");
    check_refused("", FLAGS("--slots"), "--slots: needs a value");
    check_refused("", FLAGS("--data-dir", "--run-dir", "/run"),
                  "--data-dir: needs a value, but \"--run-dir\" looks like a flag");
    check_refused("", FLAGS("extra"), "\"extra\" is not a flag");
    check_refused("", FLAGS("--node", "A B"), "node: \"A B\" is not a name");
    check_refused("", FLAGS("--endpoints", "nix"), "endpoints: \"nix\" is not an etcd endpoint");
}

static void test_all_mistakes_at_once(void **state)
{
    struct config config;
    struct error error;

    (void)state;
    write_file("slts: 3\nslots: many\nhtpp: x\naddress: nowhere\nthreads: 0\n");
    assert_int_equal(load(&config, &error, FLAGS("--check-config", "--log", "paper")), -EINVAL);
    static const char *const words[] = {":1: slts: no such key; did you mean slots?",
                                        ":3: htpp: no such key",
                                        ":2: slots: \"many\"",
                                        ":4: address: \"nowhere\"",
                                        ":5: threads: \"0\"",
                                        "log: \"paper\""};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        if (!strstr(error.text, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", error.text, words[i]);
    write_file("slots: 3\n");
    assert_int_equal(load(&config, &error, FLAGS("--check-config")), 1);
}

/* A syntax error hides no wrong value of another key. */
static void test_a_wrong_shape_hides_nothing(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"slots: 1\nslots: 2\nthreads: 0\n",
         ":2: slots stands here a second time, first on line 1\n:3: threads: \"0\" is not"},
        {"slots: [1,\n  2]\nthreads: 0\n", ":1: slots: needs one value; [ begins\n"
                                           ":3: threads: \"0\" is not"},
        {"slots:\n  - 1\n  - 2\nthreads: 0\n", ":1: slots: needs one value; a list or a map\n"
                                               ":4: threads: \"0\" is not"},
        {"slots:\n- 1\n- 2\nthreads: 0\n", ":1: slots: needs one value; a list or a map\n"
                                           ":4: threads: \"0\" is not"},
        {"slots:\n  many: 3\nthreads: 0\n", ":1: slots: needs one value; a list or a map\n"
                                            ":3: threads: \"0\" is not"},
        {"- slots: 0\n- threads: 0\n", ":1: the file is a list; write its keys without '-'\n"
                                       ":1: slots: \"0\" is not\n:2: threads: \"0\" is not"},
        {"slots: 1\n\tlog: x\nthreads: 0\n", ":2: the line begins with a tab\n"
                                             ":3: threads: \"0\" is not"},
        {"http: [fd00::1\nthreads: 0\n", ":1: http: needs one value; [ begins\n"
                                         ":2: threads: \"0\" is not"},
        {"node: 'a\nthreads: 0\n", ":1: while scanning a quoted scalar\n"
                                   ":2: threads: \"0\" is not"},
        {"slots: 1\n- log: x\nthreads: 0\n", ":2: '-' begins a list; write keys without it\n"
                                             ":3: threads: \"0\" is not"},
        {"slots: a: b\nthreads: 0\n", ":1: mapping values are not allowed\n"
                                      ":2: threads: \"0\" is not"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char words[256];
        snprintf(words, sizeof(words), "%s", cases[i].words);
        for (char *rest = words, *line; (line = strsep(&rest, "\n"));)
            check_refused(cases[i].text, NULL, line);
    }
}

/* Mistakes are listed in the order of their lines, whole, and the last line counts the rest. */
static void test_a_file_of_mistakes(void **state)
{
    char text[30000] = "slots: 0\n", first[300];
    size_t used = strlen(text);
    struct config config;
    struct error error;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "no_key_%u: 1\n", i);
    write_file(text);
    assert_int_equal(load(&config, &error, FLAGS("--log", "paper")), -EINVAL);
    snprintf(first, sizeof(first),
             "%s:1: slots: \"0\" is not a number from 1 to 64\n%s:2: no_key_0: no such key", path,
             path);
    assert_memory_equal(error.text, first, strlen(first));
    unsigned told = 0;
    char *last = strrchr(error.text, '\n');
    for (const char *at = error.text; (at = strchr(at, '\n')); at++)
        told++;
    assert_memory_equal(last, "\nand ", 5);
    assert_non_null(strstr(last, " more mistakes"));
    unsigned more = (unsigned)strtoul(last + 5, NULL, 10);
    assert_int_equal(told + more, 1002);
    *last = '\0';
    assert_non_null(strstr(strrchr(error.text, '\n'), "no such key; firnd --help lists them"));
}

static void test_a_hostile_file_is_bounded(void **state)
{
    static char text[(1u << 20) + 1];
    (void)state;
    memset(text, '[', sizeof(text) - 1);
    memcpy(text, "slots: ", 7);
    check_refused(text, NULL, "firnd.yaml:1: ");
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "- ", 2);
    check_refused(text, NULL, "firnd.yaml:1: ");
    for (size_t i = 0; i + 4 < sizeof(text); i += 4)
        memcpy(text + i, "a:\n\t", 4);
    check_refused(text, NULL, "firnd.yaml:2: the line begins with a tab");
    for (size_t i = 0; i + 9 < sizeof(text); i += 9)
        memcpy(text + i, "slots: 1\n", 9);
    check_refused(text, NULL, "firnd.yaml:2: slots stands here a second time, first on line 1\n");
}

static void test_too_long(void **state)
{
    char text[CONFIG_TEXT_SIZE + 64] = "data_dir: /";
    size_t length = strlen(text);

    (void)state;
    memset(text + length, 'x', CONFIG_TEXT_SIZE - 129);
    text[length + CONFIG_TEXT_SIZE - 129] = '\0';
    check_refused(text, NULL, "firnd.yaml:1: data_dir: longer than 383 characters");
}

static void test_missing_programs_and_files(void **state)
{
    char *no_worker[] = {"firnd", "--config", path, "--worker", "/nowhere/firn-worker", NULL};
    char *no_file[] = {"firnd", "--config", "/nowhere/firnd.yaml", NULL};
    struct config config;
    struct error error = {0};

    (void)state;
    write_file("");
    assert_int_equal(config_load(5, no_worker, &config, &error), -ENOENT);
    assert_non_null(strstr(error.text, "worker: /nowhere/firn-worker"));
    assert_int_equal(config_load(3, no_file, &config, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere/firnd.yaml"));
}

static void read_example(struct bytes *ret_text)
{
    struct error error = {0};

    if (file_read(FIRN_SOURCE "/systemd/firnd.yaml", 1 << 20, ret_text, &error))
        fail_msg("%s", error.text);
}

/* The example as installed is all comments: it must give exactly the defaults. */
static void test_example_as_it_is(void **state)
{
    struct bytes text = {0};
    struct config config;
    struct error error;

    (void)state;
    read_example(&text);
    write_file((const char *)text.data);
    assert_int_equal(load(&config, &error, NULL), 0);
    check_defaults(&config);
    bytes_done(&text);
}

/*
 * "#key: value" is a setting, "# words" a comment: with the settings enabled, every key is known.
 */
static void test_example_with_everything_set(void **state)
{
    struct bytes text = {0};
    struct config config;
    struct error error;
    char token[128];
    unsigned settings = 0;

    (void)state;
    read_example(&text);
    for (char *at = (char *)text.data; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (at[0] == '#' && at[1] >= 'a' && at[1] <= 'z') {
            at[0] = '\n';
            settings++;
        }
    assert_int_equal(settings, 33); /* all existing keys */
    write_file((const char *)text.data);
    make_token(token); /* the files of the example do not exist */
    if (load(&config, &error,
             FLAGS("--http-token", token, "--http-certificate", "", "--http-key", "",
                   "--http-authorities", "")))
        fail_msg("%s", error.text);
    unlink(token);
    assert_string_equal(config.cluster, "default");
    assert_string_equal(config.node, "node1");
    assert_int_equal(config.failure_timeout_ns, 1500 * NS_PER_MS);
    bytes_done(&text);
}

static void test_help_and_version(void **state)
{
    char *help[] = {"firnd", "--help", NULL}, *version[] = {"firnd", "--version", NULL};
    struct config config;
    struct error error = {0};

    (void)state;
    assert_int_equal(config_load(2, help, &config, &error), 1);
    assert_int_equal(config_load(2, version, &config, &error), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_journal_under_systemd),
        cmocka_unit_test(test_file_over_defaults),
        cmocka_unit_test(test_texts_of_a_file),
        cmocka_unit_test(test_shapes_of_a_file),
        cmocka_unit_test(test_object_store_from_systemd),
        cmocka_unit_test(test_flags_over_file),
        cmocka_unit_test(test_mistakes_in_the_file),
        cmocka_unit_test(test_a_token_that_cannot_be_used),
        cmocka_unit_test(test_a_certificate_without_its_key),
        cmocka_unit_test(test_mistakes_in_flags),
        cmocka_unit_test(test_all_mistakes_at_once),
        cmocka_unit_test(test_a_wrong_shape_hides_nothing),
        cmocka_unit_test(test_a_file_of_mistakes),
        cmocka_unit_test(test_a_hostile_file_is_bounded),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_missing_programs_and_files),
        cmocka_unit_test(test_example_as_it_is),
        cmocka_unit_test(test_example_with_everything_set),
        cmocka_unit_test(test_help_and_version),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
