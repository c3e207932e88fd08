/* Names of clusters, nodes and jobs, which become etcd keys and folder names. */
#pragma once

#include <stdbool.h>

#define NAME_SIZE    64 /* with the zero */
#define ADDRESS_SIZE 64 /* "host:port", numeric; IPv6 in brackets */

/**
 * name_valid() - return whether @name is 1 to 63 of [a-z0-9._-], beginning with a letter or digit
 */
bool name_valid(const char *name);
