/*
 * Into a generation and out of it: what of the state may stay, what is read or initialized here,
 * the links, and what other workers hand over. trainer->plan is the generation's.
 */
#pragma once

#include "worker/session/trainer.h"

/** generation_settle() - before the old engine goes: a step that the survivors agreed to keep is
 * applied from what it holds; -EDOM: it must not be (worker/session/divergence.h) */
int generation_settle(struct trainer *trainer, struct error *error) CHECK_RESULT;
/** generation_close() - let go of engine, routes and links of the one before */
void generation_close(struct trainer *trainer);

/** generation_steps_aside() - a plan without this worker goes on from what it holds, so it keeps
 * that: another failure before the first commit may leave no other */
bool generation_steps_aside(const struct trainer *trainer);
/** generation_fits() - whether what is held may go on in this plan; false with @error */
bool generation_fits(struct trainer *trainer, unsigned rank, struct error *error);
/** generation_make_room() - -ENOMEM with the numbers: the device cannot hold this rank's part */
int generation_make_room(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** generation_obtain_state() - what does not come from other workers: from the seed, a folder with
 * a model or a checkpoint */
int generation_obtain_state(struct trainer *trainer, unsigned rank,
                            struct error *error) CHECK_RESULT;
/** generation_join() - links, and over them what comes from other workers, or goes to them.
 * -ECANCELED: another plan replaces this one, or the worker is to stop */
int generation_join(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;

/** generation_restored_folder() - the checkpoint that the plan restores, or with copies this node's
 * part of it */
void generation_restored_folder(const struct trainer *trainer, char ret_folder[JOB_PATH_SIZE]);
