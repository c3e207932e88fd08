/* --set KEY=VALUE: single keys of a job file changed from the command line. */
#pragma once

#include "ctl/command/arguments.h"
#include "elastic/job/job_spec.h"

/**
 * job_settings_apply() - every --set of @arguments, in order, then all rules are checked again
 *
 * Values are YAML scalars; relative paths are taken from the current folder. Defaults that are
 * derived from other keys are derived again from the changed keys.
 * Return: 0; COMMAND_USAGE (unknown key with the nearest one, a value that is not allowed),
 * -ENOMEM.
 */
int job_settings_apply(const struct arguments *arguments, struct job_spec *spec,
                       struct error *error) CHECK_RESULT;
