/* Change the desired state of a job, jobs/<job>/desired, without losing a concurrent change. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "ctl/cluster/cluster_client.h"
#include "ctl/command/arguments.h"
#include "elastic/job/job_model.h"
#include "elastic/job/job_training.h"
#include "membership/kv/records.h"

/** job_wish_scale() - set --devices, --stages and --replicas (absent: free) in @desired
 *
 * Return: 0; -EINVAL if the job's model or lanes do not allow it, @error says why. */
int job_wish_scale(const struct arguments *arguments, const struct job_model *model,
                   const struct job_training *training, struct desired_record *desired,
                   struct error *error) CHECK_RESULT;

/**
 * job_wish_change() - read, change and write the record; retry when another client has written
 * meanwhile; @change: gets the current record; negative: do not write
 */
int job_wish_change(struct cluster_client *client, const char *job,
                    int (*change)(void *context, struct desired_record *desired,
                                  struct error *error),
                    void *context, struct error *error) CHECK_RESULT;
