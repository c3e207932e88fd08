/* A small poll(2) loop for programs without sd-event: firnctl and tests. */
#pragma once

#include <stdbool.h>

#include "membership/transport/loop.h"

struct poll_loop;
struct poll_loop *poll_loop_new(void);
void poll_loop_free(struct poll_loop *loop);
const struct loop *poll_loop_table(struct poll_loop *loop);
/** poll_loop_run() - run until *done or @deadline_ns (monotonic). Return: 0 or -ETIMEDOUT */
int poll_loop_run(struct poll_loop *loop, const bool *done, uint64_t deadline_ns) CHECK_RESULT;
