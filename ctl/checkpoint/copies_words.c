#include "ctl/checkpoint/copies_words.h"

#include <errno.h>
#include <stdio.h>

static int damaged(const struct copies_verdict *verdict, struct error *error)
{
    char left[64] = "every file has a good one left";

    if (verdict->lost)
        snprintf(left, sizeof(left), "%u %s no good copy left", verdict->lost,
                 verdict->lost == 1 ? "file has" : "files have");
    return error_set(error, -EBADMSG, "%u %s damaged; %s", verdict->bad,
                     verdict->bad == 1 ? "copy of a file is" : "copies of files are", left);
}

static int not_seen(const struct copies_verdict *verdict, struct error *error)
{
    return error_set(error, -EHOSTUNREACH,
                     "%u %s could not be read; the copies that were read are good, and the file "
                     "with the fewest has %u of them",
                     verdict->unseen, verdict->unseen == 1 ? "copy of a file" : "copies of files",
                     verdict->fewest);
}

int copies_words(const struct copies_verdict *verdict, struct error *error)
{
    if (verdict->bad)
        return damaged(verdict, error);
    return verdict->unseen ? not_seen(verdict, error) : 0;
}
