/* Plain scalars of YAML 1.2's core schema (section 10.3.2 of the specification). */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/compiler.h"

/**
 * yaml_scalar_parse() - make the value of the plain (unquoted) scalar @text
 * @text: ends with a zero
 *
 * Return: 0; -ERANGE for a number that no 64-bit integer or double can hold, and for .inf and .nan;
 * -ENOMEM. The text is UTF-8 already (libyaml refuses anything else).
 */
int yaml_scalar_parse(const char *text, json_t **ret_value) CHECK_RESULT;
