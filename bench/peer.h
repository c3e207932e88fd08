/*
 * Another program's training step beside ours, in the same rounds: a child that runs one step for
 * each line that it gets and answers with the seconds it took. Its first answer says what it is.
 */
#pragma once

#include <stdbool.h>

struct peer;

/**
 * peer_start() - start @argv (NULL at the end) and wait for its first line, its name
 * Return: NULL, with a line on the terminal, when it cannot be started or ends without an answer
 */
struct peer *peer_start(const char *const *argv);
void peer_stop(struct peer *peer); /* NULL allowed */
const char *peer_name(const struct peer *peer);
/** peer_numbers() - one step, answered with up to @count numbers. Return: how many; 0 when the
 * child has gone */
unsigned peer_numbers(struct peer *peer, double *ret_numbers, unsigned count);
/** peer_step() - seconds of one step; negative when the child has gone */
double peer_step(struct peer *peer);
