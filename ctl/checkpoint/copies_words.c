#include "ctl/checkpoint/copies_words.h"

#include <errno.h>
#include <stdio.h>

static int damaged(const struct copies_check *check, struct error *error)
{
    char left[64] = "every file has a good one left";

    if (check->lost)
        snprintf(left, sizeof(left), "%u %s no good copy left", check->lost,
                 check->lost == 1 ? "file has" : "files have");
    return error_set(error, -EBADMSG, "%u %s damaged; %s", check->bad,
                     check->bad == 1 ? "copy of a file is" : "copies of files are", left);
}

static int not_seen(const struct copies_check *check, struct error *error)
{
    return error_set(error, -EHOSTUNREACH,
                     "%u %s could not be read; the copies that were read are good, and the file "
                     "with the fewest has %u of them",
                     check->unseen, check->unseen == 1 ? "copy of a file" : "copies of files",
                     check->fewest);
}

int copies_words(const struct copies_check *check, struct error *error)
{
    if (check->bad)
        return damaged(check, error);
    return check->unseen ? not_seen(check, error) : 0;
}
