/*
 * Begin a job from a checkpoint on disk: to recover a run when etcd's data is lost, or to continue
 * a run under another name.
 *
 * The transaction that submits the job also records the checkpoint as the job's newest, so the
 * leader treats the job like any other with a checkpoint. The nodes must be able to read the
 * checkpoint's folder.
 */
#pragma once

#include "ctl/command/arguments.h"
#include "elastic/job/job_spec.h"
#include "membership/kv/records.h"

/**
 * job_from_load() - load the checkpoint that --from names (or the newest of the folder)
 * @ret_record: the checkpoint's record; its path is absolute
 * @ret_spec: the job as it was when the checkpoint was written
 *
 * Return: 0; an error of checkpoint_open(); -EINVAL (its job is not valid).
 */
int job_from_load(const char *path, struct checkpoint_record *ret_record, struct job_spec *ret_spec,
                  struct error *error) CHECK_RESULT;

/**
 * job_from_check() - check whether @spec can continue the run of @origin
 * @ret_differences: the settings that change the results: "train.steps 100 -> 200, ..."; "": the
 * run continues unchanged
 *
 * Return: 0; -EINVAL: another model, or fewer steps than the checkpoint has.
 */
int job_from_check(const struct job_spec *spec, const struct job_spec *origin,
                   const struct checkpoint_record *record, char *ret_differences, size_t size,
                   struct error *error) CHECK_RESULT;
