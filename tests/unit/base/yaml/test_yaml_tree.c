/* Tests of YAML to JSON: types, lines, and every refusal with its line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/yaml/yaml_tree.h"

static void assert_value(const char *yaml, const char *json)
{
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    int status = yaml_tree_parse(yaml, strlen(yaml), "t.yaml", &tree, &error);
    if (status != 0)
        fail_msg("%s: %s", yaml, error.text);
    AUTO_JSON json_t *expected = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(expected);
    if (!json_equal(yaml_tree_root(tree), expected)) {
        AUTO_FREE char *text = json_text(yaml_tree_root(tree));
        fail_msg("%s: got %s, expected %s", yaml, text, json);
    }
    yaml_tree_free(tree);
}

static void test_scalars_have_the_types_of_the_core_schema(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"12", "12"},
        {"-12", "-12"},
        {"+12", "12"},
        {"007", "7"},
        {"0x1F", "31"},
        {"0o17", "15"},
        {"0x", "\"0x\""},
        {"0o8", "\"0o8\""},
        {"-0x1", "\"-0x1\""},
        {"1e-3", "1e-3"},
        {"1E3", "1000.0"},
        {".5", "0.5"},
        {"5.", "5.0"},
        {"-1.25e+2", "-125.0"},
        {"1e", "\"1e\""},
        {".", "\".\""},
        {"1.2.3", "\"1.2.3\""},
        {"1_000", "\"1_000\""},
        {"-", "[null]"},
        {"+", "\"+\""},
        {"true", "true"},
        {"True", "true"},
        {"FALSE", "false"},
        {"tRUE", "\"tRUE\""},
        {"yes", "\"yes\""},
        {"on", "\"on\""},
        {"null", "null"},
        {"~", "null"},
        {"Null", "null"},
        {"nil", "\"nil\""},
        {"'12'", "\"12\""},
        {"\"true\"", "\"true\""},
        {"''", "\"\""},
        {"!!str 12", "\"12\""},
        {"! 12", "\"12\""},
        {"9223372036854775807", "9223372036854775807"},
        {"12:30", "\"12:30\""},
        {"caf\xc3\xa9", "\"caf\xc3\xa9\""},
        {"|\n  a\n  b\n", "\"a\\nb\\n\""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_value(cases[i][0], cases[i][1]);
}

static void test_structure(void **state)
{
    (void)state;
    assert_value("", "null");
    assert_value("# only a comment\n", "null");
    assert_value("a: 1\nb:\n  - x\n  - {c: [1, 2.5], d: }\n",
                 "{\"a\":1,\"b\":[\"x\",{\"c\":[1,2.5],\"d\":null}]}");
    assert_value("---\na: 1\n...\n", "{\"a\":1}");
    assert_value("12: x\n", "{\"12\":\"x\"}");
    assert_value("a: &x {k: [1]}\nb: *x\nc: [*x, *x]\n",
                 "{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":[{\"k\":[1]},{\"k\":[1]}]}");
}

static void test_lines(void **state)
{
    (void)state;
    static const char yaml[] = "# head\nname: x\n\ntrain:\n  steps: 5\n  optimizer: {lr: 1,\n"
                               "     eps: 2}\nlist:\n  - a: 1\n";
    struct yaml_tree *tree = NULL;
    assert_int_equal(yaml_tree_parse(yaml, sizeof(yaml) - 1, "t.yaml", &tree, NULL), 0);
    assert_int_equal(yaml_tree_line(tree, "name"), 2);
    assert_int_equal(yaml_tree_line(tree, "train"), 4);
    assert_int_equal(yaml_tree_line(tree, "train.steps"), 5);
    assert_int_equal(yaml_tree_line(tree, "train.optimizer.lr"), 6);
    assert_int_equal(yaml_tree_line(tree, "train.optimizer.eps"), 7);
    assert_int_equal(yaml_tree_line(tree, "list"), 8);
    assert_int_equal(yaml_tree_line(tree, "steps"), 0);
    assert_int_equal(yaml_tree_line(tree, ""), 0);
    yaml_tree_free(tree);
    yaml_tree_free(NULL);
}

static void assert_refused(const char *yaml, size_t size, int code, const char *says)
{
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    int status = yaml_tree_parse(yaml, size, "t.yaml", &tree, &error);
    if (status != code || !strstr(error.text, says))
        fail_msg("%.60s: %d, \"%s\"; expected %d, \"%s\"", yaml, status, error.text, code, says);
    assert_null(tree);
}

static void test_refusals_name_the_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3: a stands here a second time, first on line 1"},
        {"t:\n  x: 1\n  x: 2\n", "t.yaml:3: t.x stands here a second time, first on line 2"},
        {"a: 1\n---\nb: 2\n", "t.yaml:2: a second document"},
        {"a: 1\nb: !!int 2\n", "t.yaml:2: tags"},
        {"a: !job {}\n", "t.yaml:1: tags"},
        {"a: !x []\n", "t.yaml:1: tags"},
        {"a: &x {b: 1}\nc:\n  <<: *x\n", "t.yaml:3: merge keys"},
        {"a: *nobody\n", "t.yaml:1: an alias"},
        {"a: &x [*x]\n", "t.yaml:1: an alias"},
        {"? [1, 2]\n: 3\n", "t.yaml:1: a key must be a word"},
        {"? {a: 1}\n: 3\n", "t.yaml:1: a key must be a word"},
        {"&k a: 1\n*k : 2\n", "t.yaml:2: a key must be a word"},
        {"a: \"x\\0y\"\n", "t.yaml:1: a text with a zero byte"},
        {"\"x\\0y\": 1\n", "t.yaml:1: a key with a zero byte"},
        {"a: 1\n\tb: 2\n", "t.yaml:2: "},
        {"a: [1\nb: 2\n", "t.yaml:2: "},
        {"a: 'x\n", "t.yaml:"},
        {"a: 1\nb: \xff\n", "t.yaml:2: "},
        {"a: b: c\n", "t.yaml:1: "},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_refused(cases[i][0], strlen(cases[i][0]), -EINVAL, cases[i][1]);
    assert_refused("a: 1\0\n", 6, -EINVAL, "t.yaml:1: ");
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    char text[4096] = {0};
    memset(text, '[', YAML_TREE_DEPTH_MAX);
    memset(text + YAML_TREE_DEPTH_MAX, ']', YAML_TREE_DEPTH_MAX);
    struct yaml_tree *tree = NULL;
    assert_int_equal(yaml_tree_parse(text, strlen(text), "t.yaml", &tree, NULL), 0);
    yaml_tree_free(tree);
    memset(text, '[', 2000);
    assert_refused(text, 2000, -E2BIG, "t.yaml:1: nested too deep");
    memset(text, ' ', sizeof(text));
    for (size_t i = 0; i < 2000; i += 2)
        memcpy(text + i, "- ", 2);
    assert_refused(text, 2000, -E2BIG, "t.yaml:1: nested too deep");
}

/* Nine lines of ten aliases each would be a billion values. */
static void test_alias_bomb(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes text = {0};
    assert_int_equal(bytes_append_format(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"), 0);
    for (int i = 1; i < 10; i++) {
        assert_int_equal(bytes_append_format(&text, "a%d: &a%d [*a%d", i, i, i - 1), 0);
        for (int k = 1; k < 10; k++)
            assert_int_equal(bytes_append_format(&text, ",*a%d", i - 1), 0);
        assert_int_equal(bytes_append_format(&text, "]\n"), 0);
    }
    assert_refused((const char *)text.data, text.size_bytes, -E2BIG, "more values");
}

/* A few aliases of a long text would be gigabytes. */
static void test_aliases_of_long_texts(void **state)
{
    (void)state;
    static char long_text[YAML_TREE_SIZE_MAX / 4 + 1];
    CLEANUP(bytes_done) struct bytes text = {0};
    memset(long_text, 'x', sizeof(long_text) - 1);
    assert_int_equal(bytes_append_format(&text, "a: &a {%.100s: %s}\nb: [1, *a, *a,\n *a]\n",
                                         long_text, long_text),
                     0);
    struct error error = {0};
    struct yaml_tree *tree = NULL;
    assert_int_equal(
        yaml_tree_parse((const char *)text.data, text.size_bytes, "t.yaml", &tree, &error), 0);
    yaml_tree_free(tree);
    text.size_bytes -= 2;
    assert_int_equal(bytes_append_format(&text, ",\n *a]\n"), 0);
    assert_refused((const char *)text.data, text.size_bytes, -E2BIG, "t.yaml:4: the alias *a");
}

static void test_sizes_are_bounded(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes text = {0};
    for (unsigned i = 0; i <= YAML_TREE_NODES_MAX; i++)
        assert_int_equal(bytes_append(&text, "- 1\n", 4), 0);
    assert_refused((const char *)text.data, text.size_bytes, -E2BIG, "more values");
    while (text.size_bytes <= YAML_TREE_SIZE_MAX)
        assert_int_equal(bytes_append(&text, "#\n", 2), 0);
    assert_refused((const char *)text.data, text.size_bytes, -E2BIG, "1048576");
}

/* As some editors save it; tabs are no indentation, and the parser's own words do not say so. */
static void test_what_editors_leave(void **state)
{
    (void)state;
    static const char tab[] = "a: 1\nb:\n \tc: 2\n";
    assert_value("\xef\xbb\xbf"
                 "a: 1\nb: 2\n",
                 "{\"a\":1,\"b\":2}");
    assert_value("a:\t1\t# one\n", "{\"a\":1}");
    assert_refused(tab, strlen(tab), -EINVAL, "t.yaml:3: the line begins with a tab");
}

static void note(void *context, unsigned line, const char *words)
{
    assert_int_equal(bytes_append_format(context, "%u: %s\n", line, words), 0);
}

/* Every cut of a file is a file too: an answer, never a crash. */
static void test_every_cut_of_a_text(void **state)
{
    (void)state;
    static const char yaml[] = "a: &x {k: [1, \"t\\u00e9\"]}\nb: *x\nc: |\n  text\n? d\n: 'e'\n";
    for (size_t size = 0; size < sizeof(yaml); size++) {
        struct yaml_tree *tree = NULL;
        struct error error = {0};
        if (yaml_tree_parse(yaml, size, "t.yaml", &tree, &error) == 0)
            yaml_tree_free(tree);
        else
            assert_true(strncmp(error.text, "t.yaml:", 7) == 0);
        CLEANUP(bytes_done) struct bytes noted = {0};
        const struct yaml_tree_options options = {
            .texts = true, .mistake = note, .context = &noted};
        AUTO_YAML_TREE struct yaml_tree *texts = NULL;
        int status = yaml_tree_parse_as(yaml, size, &options, "t.yaml", &texts, &error);
        assert_true(status == 0 || noted.size_bytes > 0);
    }
}

/* Compare the tree and the mistakes as texts, one mistake per line; reading continues after
 * mistakes.
 */
static void assert_texts(const char *yaml, const char *json, const char *mistakes)
{
    CLEANUP(bytes_done) struct bytes noted = {0};
    AUTO_YAML_TREE struct yaml_tree *tree = NULL;
    AUTO_JSON json_t *expected = json_loads(json, JSON_DECODE_ANY, NULL);
    const struct yaml_tree_options options = {.texts = true, .mistake = note, .context = &noted};
    struct error error = {0};
    assert_non_null(expected);
    int status = yaml_tree_parse_as(yaml, strlen(yaml), &options, "t.yaml", &tree, &error);
    if (status != 0)
        fail_msg("%s: %s", yaml, error.text);
    AUTO_FREE char *text = json_text(yaml_tree_root(tree));
    if (!json_equal(yaml_tree_root(tree), expected))
        fail_msg("%s: got %s, expected %s", yaml, text, json);
    assert_int_equal(bytes_append(&noted, "", 1), 0);
    if (strcmp((const char *)noted.data, mistakes) != 0)
        fail_msg("%s: noted %s, expected %s", yaml, (const char *)noted.data, mistakes);
}

static void test_texts_are_as_written(void **state)
{
    (void)state;
    assert_texts("a: 010\nb: on\nc: ~\nd:\ne: '1'\nf: 1e3 # x\n",
                 "{\"a\":\"010\",\"b\":\"on\",\"c\":\"~\",\"d\":\"\",\"e\":\"1\",\"f\":\"1e3\"}",
                 "");
    assert_texts("a: !!int 1\nb: !x &y z\n", "{\"a\":\"1\",\"b\":\"z\"}", "");
    assert_texts("a: 1\n---\nb: [\n", "{\"a\":\"1\"}", "");
}

static void test_every_mistake_is_told(void **state)
{
    (void)state;
#define TAB    "the line begins with a tab; YAML is indented with spaces\n"
#define ALIAS  "aliases (*) are not known here; write the value out\n"
#define FLOW   "while parsing a flow sequence: did not find expected ',' or ']'\n"
#define QUOTED "while scanning a quoted scalar: found unexpected end of stream\n"
    static const char *const cases[][3] = {
        {"a: 1\n\tb: 2\nc: 3\n\td: 4\n", "{\"a\":\"1\",\"c\":\"3\"}", "2: " TAB "4: " TAB},
        {"a: 1\na: 2\nb: 3\na: [4]\n", "{\"a\":\"1\",\"b\":\"3\"}",
         "2: a stands here a second time, first on line 1\n"
         "4: a stands here a second time, first on line 1\n"},
        {"a: 1\na: 2\n\tb: 3\n", "{\"a\":\"1\"}",
         "3: " TAB "2: a stands here a second time, first on line 1\n"},
        {"a: &x 1\nb: *x\nc: [*y]\n", "{\"a\":\"1\",\"b\":null,\"c\":[null]}",
         "2: " ALIAS "3: " ALIAS},
        {"*x : 1\n? [k, {l: m}]\n: {n: o}\n<<: 2\n\"k\\0\": 3\na: 4\n", "{\"a\":\"4\"}",
         "1: a key must be a word\n2: a key must be a word\n"
         "4: merge keys (<<) are not known here; write the keys out\n"
         "5: a key with a zero byte (\\0) in it\n"},
        {"a: \"1\\0\"\nb: 2\n", "{\"a\":null,\"b\":\"2\"}",
         "1: a text with a zero byte (\\0) in it\n"},
        {"a: [1\nb: 2\n", "{\"b\":\"2\"}", "1: " FLOW},
        {"a: [1,\n  2\n  3: [\nb: 2\n", "{\"b\":\"2\"}", "1: " FLOW},
        {"a: \"1\nb: 2\n", "{\"b\":\"2\"}", "1: " QUOTED},
        {"a: \"1\n", "null", "1: " QUOTED},
        {"a: 1\nb\nc: 3\n", "{\"a\":\"1\",\"c\":\"3\"}",
         "2: while scanning a simple key: could not find expected ':'\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_texts(cases[i][0], cases[i][1], cases[i][2]);
}

static void count_call(void *context, unsigned line, const char *words)
{
    (void)line;
    (void)words;
    ++*(unsigned *)context;
}

/* Each reading on takes the time of a whole text. */
static void test_reading_on_is_bounded(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes text = {0};
    unsigned told = 0;
    const struct yaml_tree_options options = {
        .texts = true, .mistake = count_call, .context = &told};
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    for (unsigned i = 0; i < 10 * YAML_TREE_BLANKED_MAX; i++)
        assert_int_equal(bytes_append_format(&text, "k%u: 1\n\tx: 2\n", i), 0);
    assert_int_equal(yaml_tree_parse_as((const char *)text.data, text.size_bytes, &options,
                                        "t.yaml", &tree, &error),
                     -EINVAL);
    assert_int_equal(told, YAML_TREE_BLANKED_MAX + 1);
    assert_non_null(strstr(error.text, "t.yaml:34: the line begins with a tab"));
    told = 0;
    bytes_done(&text);
    text = (struct bytes){0};
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(bytes_append(&text, "[", 1), 0);
    assert_int_equal(yaml_tree_parse_as((const char *)text.data, text.size_bytes, &options,
                                        "t.yaml", &tree, &error),
                     -E2BIG);
    assert_int_equal(told, 1);
    assert_null(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_have_the_types_of_the_core_schema),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_refusals_name_the_line),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_alias_bomb),
        cmocka_unit_test(test_aliases_of_long_texts),
        cmocka_unit_test(test_sizes_are_bounded),
        cmocka_unit_test(test_what_editors_leave),
        cmocka_unit_test(test_every_cut_of_a_text),
        cmocka_unit_test(test_texts_are_as_written),
        cmocka_unit_test(test_every_mistake_is_told),
        cmocka_unit_test(test_reading_on_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
