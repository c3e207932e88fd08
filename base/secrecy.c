#include "base/secrecy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"

void secrecy_guard_process(void)
{
    const struct rlimit none = {0, 0};
    const char *wish = getenv("FIRN_DUMPABLE");
    if (wish && strcmp(wish, "1") == 0)
        return;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        log_warning("this process may leave core dumps, with keys in them");
}

bool secrecy_file_is_open(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && (about.st_mode & S_IRWXO) != 0;
}

void secrecy_warn_of_file(const char *path, const char *what)
{
    if (secrecy_file_is_open(path))
        log_warning("%s holds %s and all users may read it: chmod o-rwx %s", path, what, path);
}
