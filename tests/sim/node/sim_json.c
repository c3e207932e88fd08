/*
 * A cache of parsed JSON. A leader reads every key of its job after every change, and few of
 * thousands of texts differ. Callers only read the trees, so one tree serves all equal texts. The
 * real code parses a text that the cache lacks.
 */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "sim/sim.h"

#define REMEMBERED 1024 /* a power of two */
#define TEXT_MAX   32768

struct remembered {
    char *text;
    size_t size_bytes;
    json_t *tree;
};

int __real_json_parse(const char *text, size_t size_bytes, const char *source, json_t **ret_tree,
                      struct error *error);
int __wrap_json_parse(const char *text, size_t size_bytes, const char *source, json_t **ret_tree,
                      struct error *error);

static struct remembered memory[REMEMBERED];

static struct remembered *place_of(const char *text, size_t size_bytes)
{
    uint64_t hash = size_bytes, word = 0;
    size_t at = 0;
    for (; at + sizeof(word) <= size_bytes; at += sizeof(word)) {
        memcpy(&word, text + at, sizeof(word));
        hash = sim_mix(hash, word);
    }
    word = 0;
    memcpy(&word, text + at, size_bytes - at);
    return &memory[sim_mix(hash, word) % REMEMBERED];
}

int __wrap_json_parse(const char *text, size_t size_bytes, const char *source, json_t **ret_tree,
                      struct error *error)
{
    struct remembered *place = place_of(text, size_bytes);
    if (place->tree && place->size_bytes == size_bytes &&
        memcmp(place->text, text, size_bytes) == 0) {
        *ret_tree = json_incref(place->tree);
        return 0;
    }
    int status = __real_json_parse(text, size_bytes, source, ret_tree, error);
    if (status < 0 || size_bytes > TEXT_MAX)
        return status;
    json_decref(place->tree);
    free(place->text);
    place->text = sim_allocate(size_bytes + 1, 1);
    memcpy(place->text, text, size_bytes);
    place->size_bytes = size_bytes;
    place->tree = json_incref(*ret_tree);
    return status;
}
