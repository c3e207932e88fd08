/*
 * A job that begins from a checkpoint on disk: what an operator has left when etcd's data is lost,
 * and how one run is continued under another name.
 *
 * The checkpoint is recorded as the job's newest in the transaction that submits it, so everything
 * else is what the leader does with any job that has one. It must lie where the nodes reach it.
 */
#pragma once

#include "ctl/command/arguments.h"
#include "elastic/job/job_spec.h"
#include "membership/kv/records.h"

/**
 * job_from_load() - look at the checkpoint that --from names (or the newest of the folder)
 * @ret_record: what is recorded of it; its path is absolute
 * @ret_spec: the job as it was when the checkpoint was written
 *
 * Return: 0; what checkpoint_open() says; -EINVAL (its job is none).
 */
int job_from_load(const char *path, struct checkpoint_record *ret_record, struct job_spec *ret_spec,
                  struct error *error) CHECK_RESULT;

/**
 * job_from_check() - whether @spec can go on where @origin was
 * @ret_differences: what of the two makes other numbers: "train.steps 100 -> 200, ..."; "": the run
 * goes on as the very same one
 *
 * Return: 0; -EINVAL: another model, or fewer steps than are behind it.
 */
int job_from_check(const struct job_spec *spec, const struct job_spec *origin,
                   const struct checkpoint_record *record, char *ret_differences, size_t size,
                   struct error *error) CHECK_RESULT;
