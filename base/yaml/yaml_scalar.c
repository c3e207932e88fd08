#include "base/yaml/yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static const char *skip_digits(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

static const char *skip_sign(const char *at)
{
    return *at == '-' || *at == '+' ? at + 1 : at;
}

/* Return the base of the integer in @text; 0: no integer. 0o17 and 0x1f have no sign in the core
 * schema. */
static int integer_base(const char *text)
{
    if (text[0] == '0' && (text[1] == 'o' || text[1] == 'x') && text[2] != '\0') {
        const char *digits = text[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
        return text[2 + strspn(text + 2, digits)] != '\0' ? 0 : text[1] == 'o' ? 8 : 16;
    }
    const char *first = skip_sign(text);
    const char *end = skip_digits(first);
    return end > first && *end == '\0' ? 10 : 0;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text)
{
    const char *whole = skip_sign(text);
    const char *at = skip_digits(whole);
    size_t digits = (size_t)(at - whole);
    if (*at == '.') {
        const char *fraction = at + 1;
        at = skip_digits(fraction);
        digits += (size_t)(at - fraction);
    }
    if (digits == 0)
        return false;
    if (*at == 'e' || *at == 'E') {
        const char *exponent = skip_sign(at + 1);
        at = skip_digits(exponent);
        if (at == exponent)
            return false;
    }
    return *at == '\0';
}

static bool is_not_finite(const char *text)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    return is_one_of(skip_sign(text), infinities) || is_one_of(text, nans);
}

static int parse_integer(const char *text, int base, json_t **ret_value)
{
    errno = 0;
    long long value = strtoll(base == 10 ? text : text + 2, NULL, base);
    if (errno == ERANGE)
        return -ERANGE;
    *ret_value = json_integer(value);
    return 0;
}

static int parse_float(const char *text, json_t **ret_value)
{
    double value = strtod(text, NULL);
    if (!isfinite(value))
        return -ERANGE;
    *ret_value = json_real(value);
    return 0;
}

static int parse_text(const char *text, json_t **ret_value)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, nulls))
        *ret_value = json_null();
    else if (is_one_of(text, trues))
        *ret_value = json_true();
    else if (is_one_of(text, falses))
        *ret_value = json_false();
    else
        *ret_value = json_string(text);
    return 0;
}

int yaml_scalar_parse(const char *text, json_t **ret_value)
{
    json_t *value = NULL;
    int base = integer_base(text);
    int status;
    if (is_not_finite(text))
        status = -ERANGE;
    else if (base != 0)
        status = parse_integer(text, base, &value);
    else if (is_float(text))
        status = parse_float(text, &value);
    else
        status = parse_text(text, &value);
    if (status == 0 && !value)
        status = -ENOMEM;
    if (status == 0)
        *ret_value = value;
    return status;
}
