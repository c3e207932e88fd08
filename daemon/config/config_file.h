/* Read the configuration file: YAML, one value per key. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/config/config_mistakes.h"

/**
 * config_file_read() - set the keys of @mistakes->path in @config
 *
 * Return: 0, also if mistakes were added to @mistakes; negative errno if the file cannot be read
 * (@error says why).
 */
int config_file_read(struct config *config, struct config_mistakes *mistakes,
                     struct error *error) CHECK_RESULT;
