/* Check the folder from which a job takes its parameters, before the job is submitted. */
#pragma once

#include "elastic/job/job_spec.h"

/**
 * job_model_check() - read the headers of model.from's files, if this machine has the folder
 * @ret_unread: why this machine cannot read it, which proves nothing about the nodes; "": it could
 *
 * Return: 0; -EINVAL with one line for each mistake: missing or damaged files, and tensors that do
 * not fit the model that config.json and the job describe; -ENOMEM.
 */
int job_model_check(const struct job_spec *spec, char ret_unread[ERROR_TEXT_SIZE],
                    struct error *error) CHECK_RESULT;
