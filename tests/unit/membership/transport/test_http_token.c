/* The token that readers of firnd's HTTP show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "membership/transport/http_token.h"

#define TOKEN "0123456789abcdef.-_~+/="

static char path[] = "/tmp/firn-token-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int descriptor = mkstemp(path);
    if (descriptor >= 0)
        close(descriptor);
    return descriptor < 0 ? -1 : 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int read_content(const char *content, char ret_token[HTTP_TOKEN_SIZE], struct error *error)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
    return http_token_read(path, ret_token, error);
}

static void test_a_file_of_one_line_is_a_token(void **state)
{
    static const char *const contents[] = {TOKEN, TOKEN "\n", TOKEN "\r\n"};
    char token[HTTP_TOKEN_SIZE], longest[HTTP_TOKEN_SIZE + 1] = "";
    struct error error = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(contents); i++) {
        assert_int_equal(read_content(contents[i], token, &error), 0);
        assert_string_equal(token, TOKEN);
    }
    memset(longest, 'x', HTTP_TOKEN_SIZE - 1);
    longest[HTTP_TOKEN_SIZE - 1] = '\n';
    assert_int_equal(read_content(longest, token, &error), 0);
    assert_int_equal(strlen(token), HTTP_TOKEN_SIZE - 1);
}

static void test_other_files_are_refused_with_the_command_that_makes_one(void **state)
{
    char large[HTTP_TOKEN_SIZE + 1], longer[HTTP_TOKEN_SIZE * 2];
    const char *const contents[] = {
        "",
        "\n",
        "too-short",
        TOKEN "\n" TOKEN "\n",
        TOKEN " \n",
        "\n" TOKEN,
        "with spaces in between it",
        TOKEN "\r\nX: y",
        TOKEN "\xc3\xa9",
        large,
        longer,
    };
    char token[HTTP_TOKEN_SIZE];

    (void)state;
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(contents); i++) {
        struct error error = {0};
        strcpy(token, "before");
        assert_true(read_content(contents[i], token, &error) < 0);
        assert_string_equal(token, "");
        assert_non_null(strstr(error.text, path));
        assert_true(contents[i] == longer || strstr(error.text, "openssl rand -hex 32"));
    }
    struct error error = {0};
    assert_int_equal(http_token_read("/nowhere/token", token, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere/token"));
}

static void test_only_the_whole_token_is_accepted(void **state)
{
    static const struct {
        const char *header;
        bool accepted;
    } cases[] = {
        {"Bearer " TOKEN, true},
        {"bearer  " TOKEN, true}, /* the scheme's case does not matter (RFC 9110, 11.1) */
        {NULL, false},
        {"", false},
        {TOKEN, false},
        {"Bearer", false},
        {"Bearer ", false},
        {"Basic " TOKEN, false},
        {"Bearer " TOKEN "x", false},
        {"Bearer " TOKEN " ", false},
        {"Bearer 0123456789abcdef.-_~+/", false},
        {"Bearer 0123456789abcdeF.-_~+/=", false},
        {"Bearer 1123456789abcdef.-_~+/=", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(http_token_accepts(TOKEN, cases[i].header), cases[i].accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_of_one_line_is_a_token),
        cmocka_unit_test(test_other_files_are_refused_with_the_command_that_makes_one),
        cmocka_unit_test(test_only_the_whole_token_is_accepted),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
