/* Collect the mistakes in a configuration, so that an operator sees all of them at once. */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

#define CONFIG_MISTAKES_KEPT   64u /* further mistakes are only counted */
#define CONFIG_MISTAKE_SIZE    256
#define CONFIG_MISTAKE_NOWHERE 0u /* instead of a line number: a mistake in the flags */

struct config_mistake {
    unsigned line;
    char words[CONFIG_MISTAKE_SIZE];
};

struct config_mistakes {
    const char *path; /* of the file */
    unsigned count;
    struct config_mistake kept[CONFIG_MISTAKES_KEPT]; /* by line; mistakes in flags last */
};

/** config_mistakes_add() - add a mistake on @line of the file, or CONFIG_MISTAKE_NOWHERE */
void config_mistakes_add(struct config_mistakes *mistakes, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** config_mistakes_full() - return whether further mistakes are only counted */
bool config_mistakes_full(const struct config_mistakes *mistakes);

/**
 * config_mistakes_result() - list the mistakes in @error, one "firnd.yaml:3: slots: ..." per line
 *
 * The last line counts the mistakes that do not fit an error's text. Return: 0 if there are none;
 * -EINVAL.
 */
int config_mistakes_result(const struct config_mistakes *mistakes,
                           struct error *error) CHECK_RESULT;
