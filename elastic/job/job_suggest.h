/* What a user probably meant by a key that does not exist. */
#pragma once

#include <stddef.h>

/**
 * job_suggest() - a sentence for the unknown key @path: the known key that it resembles in its own
 * section, or what other programs call so, or where a key of that name belongs, or what there is
 */
void job_suggest(const char *path, char *ret_text, size_t text_size);
