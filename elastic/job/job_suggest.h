/* Suggestions for an unknown key of a job file. */
#pragma once

#include <stddef.h>

/**
 * job_suggest() - write a sentence for the unknown key @path: the key with that name in other
 * programs, or a key of that name in another section; else a similar key of the same section; else
 * the list of the section's keys
 */
void job_suggest(const char *path, char *ret_text, size_t text_size);
