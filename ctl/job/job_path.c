#include "ctl/job/job_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int job_path_from(const char *folder, const char *path, char *ret_path, size_t size)
{
    const char *relative = strncmp(path, "./", 2) == 0 ? path + 2 : path;
    const char *between = strcmp(folder, "/") == 0 ? "" : "/";
    int length = path[0] == '/' ? snprintf(ret_path, size, "%s", path)
                                : snprintf(ret_path, size, "%s%s%s", folder, between, relative);

    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}
