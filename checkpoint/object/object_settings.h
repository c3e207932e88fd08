/*
 * Address and key of the object store: the operator's file, read by firnd and firnctl.
 *
 *   # /etc/firn/object.conf, readable only by firn's user
 *   endpoint = https://s3.example.com
 *   region = eu-central-1
 *   access_key = ...
 *   secret_key = ...
 *
 * Address and key are in one file, because a reader of the key may also know the address. A job
 * names only a bucket. A file that all users of the machine may read is refused.
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
    char endpoint[256]; /* "https://host[:port]", without a trailing slash */
    char region[64];
    char ca_file[512]; /* empty: the system's authorities */
    char prefix[256];  /* of every key, without slashes at both ends; may be empty */
    char access_key[256];
    char secret_key[256];
    char session_token[4096];  /* empty: none */
    uint64_t bytes_per_second; /* in each direction; 0: no limit */
};

/**
 * object_settings_load() - read and check the file
 *
 * Return: 0; -ENOENT, -EACCES, ... of the file; -EPERM: other users may read it; -EINVAL: @error
 * names file, line and the allowed values (never the value of a key).
 */
int object_settings_load(const char *path, struct object_settings *ret_settings,
                         struct error *error) CHECK_RESULT;
/** object_settings_forget() - overwrite the secrets */
void object_settings_forget(struct object_settings *settings);
