#include "worker/metrics/exact_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int exact_line_parse(const char *line, size_t size_bytes, struct exact *ret_exact,
                     struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse(line, size_bytes, "metrics", &tree, error);

    if (!status)
        status = json_get_u64(tree, "step", UINT64_MAX, &ret_exact->step, error);
    if (!status)
        status = json_get_text(tree, "loss_bits", ret_exact->loss_bits, BITS64_TEXT_SIZE, error);
    if (!status)
        status = json_get_text(tree, "grad_norm_bits", ret_exact->grad_norm_bits, BITS64_TEXT_SIZE,
                               error);
    if (!status)
        status = json_get_unsigned(tree, "frozen_layers", 4096, &ret_exact->frozen_layers, error);
    if (!status)
        status = json_get_u64(tree, "generation", UINT64_MAX, &ret_exact->generation, error);
    return status;
}

/* Return the text after `"key":`; NULL: no such member. No text in a line has a quotation mark. */
static const char *value_of(const char *line, size_t size_bytes, const char *member)
{
    size_t length = strlen(member);
    const char *at = memmem(line, size_bytes, member, length);

    return at ? at + length : NULL;
}

static bool scan_bits(const char *line, size_t size_bytes, const char *member,
                      char ret_bits[BITS64_TEXT_SIZE])
{
    const char *value = value_of(line, size_bytes, member);

    if (!value || (size_t)(line + size_bytes - value) < BITS64_TEXT_SIZE ||
        value[BITS64_TEXT_SIZE - 1] != '"')
        return false;
    memcpy(ret_bits, value, BITS64_TEXT_SIZE - 1);
    ret_bits[BITS64_TEXT_SIZE - 1] = '\0';
    return true;
}

static bool scan_number(const char *line, size_t size_bytes, const char *member,
                        uint64_t *ret_value)
{
    const char *value = value_of(line, size_bytes, member);
    char *end;

    if (!value || *value < '0' || *value > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(value, &end, 10); /* a comma or brace within the line ends the number */
    return errno == 0 && end < line + size_bytes && (*end == ',' || *end == '}');
}

int exact_line_scan(const char *line, size_t size_bytes, struct exact *ret_exact)
{
    uint64_t frozen_layers = 0;
    bool scanned =
        size_bytes > 2 && !memchr(line, '\0', size_bytes) && line[0] == '{' &&
        line[size_bytes - 1] == '}' &&
        scan_number(line, size_bytes, "\"step\":", &ret_exact->step) &&
        scan_number(line, size_bytes, "\"generation\":", &ret_exact->generation) &&
        scan_number(line, size_bytes, "\"frozen_layers\":", &frozen_layers) &&
        scan_bits(line, size_bytes, "\"loss_bits\":\"", ret_exact->loss_bits) &&
        scan_bits(line, size_bytes, "\"grad_norm_bits\":\"", ret_exact->grad_norm_bits) &&
        frozen_layers <= 4096;

    ret_exact->frozen_layers = (unsigned)frozen_layers;
    return scanned ? 0 : exact_line_parse(line, size_bytes, ret_exact, NULL);
}

bool exact_line_same(const struct exact *one, const struct exact *other)
{
    return !strcmp(one->loss_bits, other->loss_bits) &&
           !strcmp(one->grad_norm_bits, other->grad_norm_bits) &&
           one->frozen_layers == other->frozen_layers;
}
