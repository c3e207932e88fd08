/* A thread that nobody waits for: it and who started it own its argument together, and say between
 * them who frees it. */
#pragma once

#include "base/compiler.h"

/** thread_start_detached() - run @run(@argument). Return: 0; the negative errno of
 * pthread_create() */
int thread_start_detached(void *(*run)(void *argument), void *argument) CHECK_RESULT;
