/*
 * A look at a checkpoint's folder (daemon/core/errand.h): on a slow file server one of thousands of
 * files takes longer than a leader may be silent. A look that takes longer than ERRAND_PATIENCE_NS
 * counts as impossible.
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
void folder_look_free(struct folder_look *folder); /* NULL allowed; a thread ends by itself */

/**
 * folder_look_at() - look at the checkpoint in @path, or take the result of the look at it
 *
 * Return: false: it is under way, and ended() follows, or ERRAND_PATIENCE_NS pass; true:
 * *ret_status is that of checkpoint_look(), or -ETIMEDOUT, or the error of starting a thread, with
 * @error
 */
bool folder_look_at(struct folder_look *folder, const char *path, int *ret_status,
                    struct error *error) CHECK_RESULT;
