/* Read an etcd user's password from a file. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#define PASSWORD_SIZE 4096

/** password_read() - read the first line of @path
 *
 * The caller clears @ret_password (explicit_bzero()) as soon as it has been handed on.
 *
 * Return: 0; negative: @error names the file, and @ret_password is "".
 */
int password_read(const char *path, char ret_password[PASSWORD_SIZE],
                  struct error *error) CHECK_RESULT;
