/*
 * Run another program's training step beside ours, in the same rounds. The child runs one step for
 * each input line and answers with the seconds of the step. Its first answer is its name.
 */
#pragma once

#include <stdbool.h>

struct peer;

/**
 * peer_start() - start @argv (NULL at the end) and wait for its first line, its name
 * Return: NULL, with a line on the terminal: it cannot be started, or ends without an answer
 */
struct peer *peer_start(const char *const *argv);
void peer_stop(struct peer *peer); /* NULL allowed */
const char *peer_name(const struct peer *peer);
/** peer_numbers() - run one step, answered with up to @count numbers. Return: their count; 0: the
 * child has ended */
unsigned peer_numbers(struct peer *peer, double *ret_numbers, unsigned count);
/** peer_step() - return the seconds of one step; negative: the child has ended */
double peer_step(struct peer *peer);
