#include "ctl/job/job_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/yaml/yaml_tree.h"
#include "ctl/job/job_path.h"
#include "ctl/job/job_pretrained.h"
#include "ctl/job/job_settings.h"

#define MISTAKES_TOLD_MAX 100

/* Make @path absolute, relative to @folder, in place; an empty path stays empty. */
static int make_absolute(const char *folder, const char *key, char path[JOB_PATH_SIZE],
                         struct error *error)
{
    char absolute[JOB_PATH_SIZE];
    if (path[0] == '\0')
        return 0;
    if (job_path_from(folder, path, absolute, sizeof(absolute)))
        return error_set(error, -ENAMETOOLONG, "%s: \"%s\" from %s is longer than %d bytes", key,
                         path, folder, JOB_PATH_SIZE - 1);
    strcpy(path, absolute);
    return 0;
}

static int make_paths_absolute(const char *folder, struct job_spec *spec, struct error *error)
{
    int status = 0;
    for (unsigned i = 0; status == 0 && i < spec->data.path.count; i++)
        status = make_absolute(folder, "data.path", spec->data.path.paths[i], error);
    for (unsigned i = 0; status == 0 && i < spec->data.mask.count; i++)
        status = make_absolute(folder, "data.mask", spec->data.mask.paths[i], error);
    if (status == 0)
        status = make_absolute(folder, "data.validation", spec->data.validation_path, error);
    if (status == 0)
        status = make_absolute(folder, "data.validation_mask", spec->data.validation_mask, error);
    if (status == 0)
        status = make_absolute(folder, "checkpoint.path", spec->checkpoint.path, error);
    if (status == 0)
        status = make_absolute(folder, "model.from", spec->model.from, error);
    return status;
}

/* Return the real folder of the file at @path, without a trailing slash; malloc'ed. */
static char *folder_of(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real)
        return NULL;
    char *slash = strrchr(real, '/');
    slash[slash == real ? 1 : 0] = '\0';
    return real;
}

/* Cut the last line, "and N more ...", from @text and return N; 0: no such line. */
static unsigned cut_more(char *text)
{
    char *rest = strrchr(text, '\n');
    if (!rest || strncmp(rest, "\nand ", 5) != 0)
        return 0;
    *rest = '\0';
    return (unsigned)strtoul(rest + 5, NULL, 10);
}

/* Report the mistakes of a file, MISTAKES_TOLD_MAX and a few more at most. Print mistakes that do
 * not fit into an error at once; the next round decodes the file again and continues behind them.
 */
static int decode(struct yaml_tree *tree, const char *where, struct job_spec *ret_spec,
                  struct error *error)
{
    unsigned told = 0, count = 0;
    for (;;) {
        int status = job_spec_decode_from(yaml_tree_root(tree), where, yaml_tree_line, tree, told,
                                          ret_spec, &count, error);
        unsigned more = status == -EINVAL ? cut_more(error->text) : 0;
        if (more == 0 && told == 0)
            return status;
        fprintf(stderr, "%s%s\n", told == 0 ? "firnctl: " : "", error->text);
        error_clear(error);
        if (more == 0 || more >= count - told)
            return error_set(error, -EINVAL, "%s has %u mistakes", where, count);
        told = count - more;
        if (told >= MISTAKES_TOLD_MAX)
            return error_set(error, -EINVAL, "%s has %u mistakes, of which these are the first %u",
                             where, count, told);
    }
}

static int read_input(struct bytes *ret_text, struct error *error)
{
    char piece[4096];
    size_t size;
    while ((size = fread(piece, 1, sizeof(piece), stdin)) > 0)
        if (ret_text->size_bytes + size > YAML_TREE_SIZE_MAX ||
            bytes_append(ret_text, piece, size) != 0)
            return error_set(error, -EFBIG, "standard input: more than a job file may have");
    return ferror(stdin) ? error_set(error, -EIO, "standard input: it cannot be read") : 0;
}

static int load(const char *path, const struct arguments *settings, struct job_spec *ret_spec,
                struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    AUTO_YAML_TREE struct yaml_tree *tree = NULL;
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    if (!spec)
        return error_set(error, -ENOMEM, "no memory for a job");
    bool is_input = strcmp(path, "-") == 0;
    int status =
        is_input ? read_input(&text, error) : file_read(path, YAML_TREE_SIZE_MAX, &text, error);
    if (status < 0)
        return status;
    AUTO_FREE char *folder = is_input ? realpath(".", NULL) : folder_of(path);
    if (!folder)
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    if (is_input)
        path = "standard input";
    status = yaml_tree_parse((const char *)text.data, text.size_bytes, path, &tree, error);
    if (status == 0 && settings)
        status = job_settings_edit(settings, yaml_tree_root(tree), error);
    if (status == 0)
        status = job_pretrained_fill(yaml_tree_root(tree), folder, error);
    if (status == 0)
        status = decode(tree, path, spec, error);
    if (status == 0)
        status = make_paths_absolute(folder, spec, error);
    if (status == 0)
        *ret_spec = *spec;
    return status;
}

/* Return whether the file is a job without @settings. */
static bool is_good_alone(const char *path)
{
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    struct error error = {0};
    return spec && strcmp(path, "-") != 0 && load(path, NULL, spec, &error) == 0;
}

int job_file_load(const char *path, const struct arguments *settings, struct job_spec *ret_spec,
                  struct error *error)
{
    int status = load(path, settings, ret_spec, error);
    bool is_changed = settings && arguments_has(settings, "set");
    return status == -EINVAL && is_changed && is_good_alone(path) ? COMMAND_USAGE : status;
}
