/* Start threads that are never joined. The thread and its starter share the argument and must agree
 * which of them frees it. */
#pragma once

#include "base/compiler.h"

/** thread_start_detached() - run @run(@argument). Return: 0; the negative errno of
 * pthread_create() */
int thread_start_detached(void *(*run)(void *argument), void *argument) CHECK_RESULT;
