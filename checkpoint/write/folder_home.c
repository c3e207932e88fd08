#include "checkpoint/write/folder_home.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Identify a folder by device and inode; zeros, which no folder has, if it does not exist. */
static void identify(const char *folder, dev_t *ret_device, ino_t *ret_inode)
{
    struct stat status = {0};
    if (stat(folder, &status) != 0)
        status = (struct stat){0};
    *ret_device = status.st_dev;
    *ret_inode = status.st_ino;
}

static bool is_there(const char *folder)
{
    struct stat status;
    return stat(folder, &status) == 0 || errno != ENOENT;
}

void checkpoint_home_init(struct checkpoint_home *home, const char *folder)
{
    *home = (struct checkpoint_home){0};
    snprintf(home->folder, sizeof(home->folder), "%s", folder);
    folder_nearest(home->folder, home->above);
    home->seen = strcmp(home->above, home->folder) == 0;
    identify(home->above, &home->device, &home->inode);
}

/* Return whether the folder in which the job's folder is to be created is still the same one. */
static bool is_the_same(const struct checkpoint_home *home)
{
    dev_t device;
    ino_t inode;
    identify(home->above, &device, &inode);
    return device == home->device && inode == home->inode;
}

int checkpoint_home_enter(struct checkpoint_home *home, const struct io *io,
                          struct io_context *context, struct error *error)
{
    if (is_there(home->folder)) {
        home->seen = true;
        return 0;
    }
    if (home->seen || !is_the_same(home))
        return error_set(error, -ENODEV,
                         "%s is gone: its disk is not mounted, or was another one before; no "
                         "checkpoint is made until the folder is there again",
                         home->seen ? home->folder : home->above);
    int status = io->make_directory(context, home->folder);
    if (status != 0)
        return error_set(error, status, "cannot make the folder %s: %s", home->folder,
                         strerror(-status));
    home->seen = true;
    return 0;
}
