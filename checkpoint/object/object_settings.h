/*
 * Where the object store is and with which key: the operator's file, which firnd and firnctl read.
 *
 *   # /etc/firn/object.conf, readable by firn's user and nobody else
 *   endpoint = https://s3.example.com
 *   region = eu-central-1
 *   access_key = ...
 *   secret_key = ...
 *
 * All in one file, since whoever may read the key may as well know where it fits. A job names a
 * bucket and nothing else. The file is refused when everybody on the machine may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define OBJECT_SETTINGS_FILE       "/etc/firn/object.conf"
#define OBJECT_SETTINGS_CREDENTIAL "firn.object" /* LoadCredential= of systemd */

struct object_settings {
    char endpoint[256]; /* "https://host[:port]", without a slash at its end */
    char region[64];
    char ca_file[512]; /* empty: the system's authorities */
    char prefix[256];  /* of every key, without slashes at its ends; may be empty */
    char access_key[256];
    char secret_key[256];
    char session_token[4096];  /* empty: none */
    uint64_t bytes_per_second; /* in each direction; 0: as fast as it goes */
};

/**
 * object_settings_load() - read and check the file
 *
 * Return: 0; -ENOENT, -EACCES, ... of the file; -EPERM: others may read it; -EINVAL: @error names
 * file, line and what is allowed (never a value of a key).
 */
int object_settings_load(const char *path, struct object_settings *ret_settings,
                         struct error *error) CHECK_RESULT;
/** object_settings_forget() - overwrite what is secret */
void object_settings_forget(struct object_settings *settings);
