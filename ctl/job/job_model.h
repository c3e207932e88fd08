/* The folder that a job takes its parameters from, before the job is submitted. */
#pragma once

#include "elastic/job/job_spec.h"

/**
 * job_model_check() - read the headers of model.from's files, where this machine has the folder
 * @ret_unread: why it cannot be looked at from here, which says nothing about the nodes; "": it was
 *
 * Return: 0; -EINVAL with every mistake in a line of its own: files that are missing or damaged,
 * and tensors that are not of the model that config.json and the job describe; -ENOMEM.
 */
int job_model_check(const struct job_spec *spec, char ret_unread[ERROR_TEXT_SIZE],
                    struct error *error) CHECK_RESULT;
