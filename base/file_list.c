/*
 * A folder and a glob are the same walk over places: a folder and the pattern component to match
 * inside it. A whole folder is the pattern "**" that includes hidden names. The places are on an
 * explicit stack, so depth costs no call frames and is bounded by a count.
 */
#include "base/file_list.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define COMPONENTS_MAX 64
#define DEEP           "**"

struct place {
    char *folder;
    unsigned component;
};

struct walk {
    struct file_list *files;
    const char *components[COMPONENTS_MAX];
    unsigned component_count;
    bool hidden; /* names with a leading dot match */
    struct place *places;
    size_t place_count, place_capacity, visited_count;
    struct error *error;
};

static int out_of_memory(struct error *error)
{
    return error_set(error, -ENOMEM, "no memory for the list of files");
}

/* Make room for one more element and return the array, which may have moved; NULL: @array is
 * unchanged. */
static void *reserve(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return array;

    size_t grown = *capacity == 0 ? 64 : 2 * *capacity;
    void *moved = reallocarray(array, grown, element_bytes);
    if (moved != NULL)
        *capacity = grown;
    return moved;
}

/* Take @path, also on failure. */
static int add_file(struct file_list *files, char *path, const struct stat *found,
                    struct error *error)
{
    struct listed_file *moved = NULL;
    int status = 0;

    if (files->count >= FILE_LIST_MAX)
        status = error_set(error, -E2BIG, "more than %d files", FILE_LIST_MAX);
    else
        moved = reserve(files->files, files->count, &files->capacity, sizeof(*moved));
    if (!moved) {
        free(path);
        return status < 0 ? status : out_of_memory(error);
    }
    files->files = moved;
    files->files[files->count++] =
        (struct listed_file){.path = path, .size_bytes = (uint64_t)found->st_size};
    return 0;
}

/* Take @folder, also on failure. */
static int push_place(struct walk *walk, char *folder, unsigned component)
{
    struct place *moved = NULL;
    int status = 0;

    if (++walk->visited_count > FILE_LIST_MAX)
        status = error_set(walk->error, -E2BIG, "more than %d folders", FILE_LIST_MAX);
    else if (folder)
        moved = reserve(walk->places, walk->place_count, &walk->place_capacity, sizeof(*moved));
    if (!moved) {
        free(folder);
        return status < 0 ? status : out_of_memory(walk->error);
    }
    walk->places = moved;
    walk->places[walk->place_count++] = (struct place){.folder = folder, .component = component};
    return 0;
}

static char *join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    const char *separator = length == 0 || folder[length - 1] == '/' ? "" : "/";
    char *path;

    return asprintf(&path, "%s%s%s", folder, separator, name) < 0 ? NULL : path;
}

static bool has_magic(const char *text)
{
    return strpbrk(text, "*?[\\");
}

/* Return 1 and the status when @path exists; 0 when it does not. */
static int look_up(const char *path, bool follow, struct stat *ret_status, struct error *error)
{
    if ((follow ? stat(path, ret_status) : lstat(path, ret_status)) == 0)
        return 1;
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return 0;
    return error_set(error, -errno, "%s: %s", path, strerror(errno));
}

/* Visit a match for the component of @place: a file of the result, or a folder on the way to one.
 * @path is consumed in every case. */
static int visit_match(struct walk *walk, const struct place *place, char *path)
{
    bool deep = strcmp(walk->components[place->component], DEEP) == 0;
    bool last = place->component + 1 == walk->component_count;
    struct stat found;

    if (!path)
        return out_of_memory(walk->error);
    int status = look_up(path, !deep, &found, walk->error);
    if (status > 0 && deep && S_ISDIR(found.st_mode))
        return push_place(walk, path, place->component);
    if (status > 0 && deep)
        status = last ? look_up(path, true, &found, walk->error) : 0;
    if (status > 0 && last && S_ISREG(found.st_mode))
        return add_file(walk->files, path, &found, walk->error);
    if (status > 0 && !last && S_ISDIR(found.st_mode))
        return push_place(walk, path, place->component + 1);
    free(path);
    return status < 0 ? status : 0;
}

static bool name_matches(const struct walk *walk, const char *component, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    if (strcmp(component, DEEP) == 0)
        return walk->hidden || name[0] != '.';
    return fnmatch(component, name, FNM_PERIOD) == 0;
}

static int read_folder(struct walk *walk, const struct place *place)
{
    const char *component = walk->components[place->component];
    const char *folder = place->folder[0] == '\0' ? "." : place->folder;
    DIR *directory = opendir(folder);
    int status = 0;

    if (!directory)
        return error_set(walk->error, -errno, "%s: %s", folder, strerror(errno));
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry && errno != 0)
            status = error_set(walk->error, -errno, "%s: %s", folder, strerror(errno));
        if (!entry)
            break;
        if (!name_matches(walk, component, entry->d_name))
            continue;
        status = visit_match(walk, place, join(place->folder, entry->d_name));
        if (status < 0)
            break;
    }
    closedir(directory);
    return status;
}

static int visit_place(struct walk *walk, const struct place *place)
{
    const char *component = walk->components[place->component];
    bool deep = strcmp(component, DEEP) == 0;
    int status = 0;

    if (!has_magic(component))
        return visit_match(walk, place, join(place->folder, component));
    if (deep && place->component + 1 < walk->component_count) /* ** also matches no folder */
        status = push_place(walk, strdup(place->folder), place->component + 1);
    return status < 0 ? status : read_folder(walk, place);
}

/* Walk from @folder and collect all matches of the walk's components. */
static int walk_from(struct walk *walk, const char *folder)
{
    int status = push_place(walk, strdup(folder), 0);

    while (status == 0 && walk->place_count > 0) {
        struct place place = walk->places[--walk->place_count];
        status = visit_place(walk, &place);
        free(place.folder);
    }
    while (walk->place_count > 0)
        free(walk->places[--walk->place_count].folder);
    free(walk->places);
    return status;
}

static int find_folder(struct file_list *files, const char *path, struct error *error)
{
    struct walk walk = {
        .files = files, .components = {DEEP}, .component_count = 1, .hidden = true, .error = error};
    return walk_from(&walk, path);
}

static int find_glob(struct file_list *files, const char *pattern, struct error *error)
{
    struct walk walk = {.files = files, .error = error};
    AUTO_FREE char *text = strdup(pattern);
    size_t count_before = files->count;
    char *rest = NULL;

    if (!text)
        return out_of_memory(error);
    for (char *part = strtok_r(text, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        unsigned count = walk.component_count;
        if (count > 0 && strcmp(part, DEEP) == 0 && strcmp(walk.components[count - 1], DEEP) == 0)
            continue; /* a second ** would only find the same files again */
        if (count == COMPONENTS_MAX)
            return error_set(error, -EINVAL, "%s: more than %d components", pattern,
                             COMPONENTS_MAX);
        walk.components[walk.component_count++] = part;
    }
    int status = walk_from(&walk, pattern[0] == '/' ? "/" : "");
    if (status == 0 && files->count == count_before)
        status = error_set(error, -ENOENT, "no file matches %s", pattern);
    return status;
}

static int find_path(struct file_list *files, const char *path, struct error *error)
{
    AUTO_FREE char *clean = strdup(path); /* without trailing slashes: one name per file */
    struct stat found;

    if (!clean)
        return out_of_memory(error);
    for (size_t end = strlen(clean); end > 1 && clean[end - 1] == '/'; end--)
        clean[end - 1] = '\0';

    int status = look_up(clean, true, &found, error);
    if (status < 0)
        return status;
    if (status == 0 && has_magic(clean))
        return find_glob(files, clean, error);
    if (status == 0)
        return error_set(error, -ENOENT, "%s: no such file or folder", path);
    if (S_ISDIR(found.st_mode))
        return find_folder(files, clean, error);
    if (!S_ISREG(found.st_mode))
        return error_set(error, -EINVAL, "%s: neither a file nor a folder", path);
    char *copy = strdup(clean);
    return !copy ? out_of_memory(error) : add_file(files, copy, &found, error);
}

static int compare_paths(const void *a, const void *b)
{
    const struct listed_file *left = a, *right = b;
    return strcmp(left->path, right->path);
}

static void sort_unique(struct file_list *files)
{
    size_t kept = 0;

    if (files->count > 1)
        qsort(files->files, files->count, sizeof(*files->files), compare_paths);
    for (size_t i = 0; i < files->count; i++) {
        if (kept > 0 && strcmp(files->files[kept - 1].path, files->files[i].path) == 0)
            free(files->files[i].path);
        else
            files->files[kept++] = files->files[i];
    }
    files->count = kept;
}

int file_list_find(const char *key, const char *const *paths, unsigned path_count,
                   struct file_list *ret_files, struct error *error)
{
    struct file_list files = {0};
    int status = 0;

    for (unsigned i = 0; status == 0 && i < path_count; i++)
        status = find_path(&files, paths[i], error);
    if (status < 0) {
        error_prefix(error, "%s: ", key);
        file_list_done(&files);
        return status;
    }
    sort_unique(&files);
    *ret_files = files;
    return 0;
}

void file_list_done(struct file_list *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->files[i].path);
    free(files->files);
    *files = (struct file_list){0};
}
