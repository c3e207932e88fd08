#include "ctl/view/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int output_json(json_t *tree, struct error *error)
{
    AUTO_FREE char *text = tree ? json_text_indented(tree) : NULL;

    json_decref(tree);
    if (!text)
        return error_set(error, -ENOMEM, "no memory for the answer");
    puts(text);
    return 0;
}

int output_flush(struct error *error)
{
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    return error_set(error, errno ? -errno : -EIO, "standard output: %s",
                     strerror(errno ? errno : EIO));
}
