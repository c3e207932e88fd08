/*
 * Look at a checkpoint's folder in a separate thread (daemon/core/errand.h): on a slow file server,
 * a folder of thousands of files takes longer than a leader may be silent. A look that takes longer
 * than ERRAND_PATIENCE_NS counts as failed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/core/errand.h"

struct folder_look;

/** folder_look_new() - @ended is called on @loop when a look has ended; NULL: no memory */
struct folder_look *folder_look_new(const struct loop *loop, void (*ended)(void *user), void *user);
void folder_look_free(struct folder_look *folder); /* NULL allowed; its thread ends by itself */

/**
 * folder_look_at() - look at the checkpoint in @path, or take the result of an earlier look
 *
 * Return: false: the look is under way; call again after ended() or ERRAND_PATIENCE_NS. true:
 * *ret_status is the result of checkpoint_look(), -ETIMEDOUT, or the error of starting a thread,
 * with @error
 */
bool folder_look_at(struct folder_look *folder, const char *path, int *ret_status,
                    struct error *error) CHECK_RESULT;
