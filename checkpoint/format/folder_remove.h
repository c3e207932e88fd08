/*
 * Remove checkpoint folders: used by retention (checkpoint/write/retain.c) and by operators'
 * commands (folder_marks.c).
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/** folder_remove() - remove a flat folder with all its files. Return: 0 also if it does not
 * exist */
int folder_remove(const char *path, struct error *error) CHECK_RESULT;
/** folder_remove_step() - rename the checkpoint of @step below the job's @folder to .gone,
 * durably, then remove it. Return: 0 also if it does not exist */
int folder_remove_step(const char *folder, uint64_t step, struct error *error) CHECK_RESULT;
