/* --set KEY=VALUE: change single keys of a job file from the command line. */
#pragma once

#include <jansson.h>

#include "ctl/command/arguments.h"
#include "elastic/job/job_spec.h"

/**
 * job_settings_edit() - put every --set of @arguments, in order, into the tree of a job file; rules
 * between keys are checked when the tree is decoded
 *
 * Values are YAML scalars; relative paths are taken from the current folder.
 * Return: 0; COMMAND_USAGE (unknown key with the nearest one, a value that is not allowed),
 * -ENOMEM.
 */
int job_settings_edit(const struct arguments *arguments, json_t *root,
                      struct error *error) CHECK_RESULT;

/**
 * job_settings_apply() - do the same for a decoded job, then check all rules again
 *
 * Defaults that are derived from other keys are derived again from the changed keys.
 * Return: 0; COMMAND_USAGE (unknown key with the nearest one, a value that is not allowed),
 * -ENOMEM.
 */
int job_settings_apply(const struct arguments *arguments, struct job_spec *spec,
                       struct error *error) CHECK_RESULT;
