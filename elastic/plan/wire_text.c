#include "elastic/plan/wire_text.h"

#include <errno.h>
#include <string.h>

#include "base/hex.h"
#include "base/json.h"

#define INSTANCE_DIGITS 16

json_t *wire_instance(uint64_t instance)
{
    char text[INSTANCE_DIGITS + 1];
    hex_text(instance, INSTANCE_DIGITS, text);
    return json_string(text);
}

int wire_get_identity(const json_t *tree, const char *key, uint64_t *ret_identity,
                      struct error *error)
{
    char text[INSTANCE_DIGITS + 1];
    int status = json_get_text(tree, key, text, sizeof(text), error);
    if (status == 0 &&
        (strlen(text) != INSTANCE_DIGITS || !hex_parse(text, INSTANCE_DIGITS, ret_identity)))
        status =
            error_set(error, -EINVAL, "\"%s\" must be %d hexadecimal digits", key, INSTANCE_DIGITS);
    return status;
}

int wire_get_instance(const json_t *tree, uint64_t *ret_instance, struct error *error)
{
    return wire_get_identity(tree, "instance", ret_instance, error);
}

json_t *wire_sentence(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    AUTO_FREE char *plain = strdup(text);
    for (char *c = plain; c && *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return !plain ? NULL : json_string(plain);
}
