#include "elastic/job/job_suggest.h"

#include <stdio.h>
#include <string.h>

#include "elastic/job/edit_distance.h"
#include "elastic/job/job_schema.h"

#define WORD_SIZE 64

/* Return the length of the section part of @path with its dot: 6 for "train.steps". */
static size_t section_length(const char *path)
{
    return (size_t)(schema_last_word(path) - path);
}

/*
 * Get the word that row @key contributes to the section of @path: the key's own name, or the name
 * of its sub-section. False when the key is outside the section.
 */
static bool word_in_section(const struct schema_key *key, const char *path,
                            char ret_word[WORD_SIZE])
{
    size_t length = section_length(path);
    if (strncmp(key->path, path, length) != 0)
        return false;
    const char *word = key->path + length;
    snprintf(ret_word, WORD_SIZE, "%.*s", (int)strcspn(word, "."), word);
    return true;
}

static bool nearest_in_section(const char *path, char ret_word[WORD_SIZE])
{
    const char *written = schema_last_word(path);
    unsigned best = EDIT_DISTANCE_WORD_MAX;
    for (unsigned i = 0; i < job_schema_count; i++) {
        char word[WORD_SIZE];
        if (!word_in_section(&job_schema[i], path, word) || !edit_distance_is_close(written, word))
            continue;
        if (edit_distance(written, word) < best) {
            best = edit_distance(written, word);
            memcpy(ret_word, word, WORD_SIZE);
        }
    }
    return best < EDIT_DISTANCE_WORD_MAX;
}

static bool also_called(const struct schema_key *key, const char *word)
{
    char between_spaces[WORD_SIZE];
    if (!key->also || strlen(word) + 3 > sizeof(between_spaces))
        return false;
    snprintf(between_spaces, sizeof(between_spaces), " %s ", word);
    return strstr(key->also, between_spaces);
}

/* Find a key by its name in other programs, first in the same section; else by its last word. */
static const struct schema_key *elsewhere(const char *path)
{
    const char *word = schema_last_word(path);
    size_t length = section_length(path);
    const struct schema_key *found = NULL;
    for (unsigned i = 0; i < job_schema_count; i++) {
        const struct schema_key *key = &job_schema[i];
        if (!also_called(key, word) && strcmp(schema_last_word(key->path), word) != 0)
            continue;
        if (length > 0 && strncmp(key->path, path, length) == 0)
            return key;
        if (!found)
            found = key;
    }
    return found;
}

/* List the words of the section, each once: "steps, lanes, optimizer". */
static void list_section(const char *path, char *ret_text, size_t text_size)
{
    char last[WORD_SIZE] = "";
    size_t used = 0;
    ret_text[0] = '\0';
    for (unsigned i = 0; i < job_schema_count && used < text_size; i++) {
        char word[WORD_SIZE];
        if (!word_in_section(&job_schema[i], path, word) || strcmp(word, last) == 0)
            continue;
        used +=
            (size_t)snprintf(ret_text + used, text_size - used, "%s%s", used > 0 ? ", " : "", word);
        memcpy(last, word, sizeof(last));
    }
}

void job_suggest(const char *path, char *ret_text, size_t text_size)
{
    char word[WORD_SIZE], known[256];
    const struct schema_key *other = elsewhere(path);
    if (!other && nearest_in_section(path, word)) {
        snprintf(ret_text, text_size, "no such key; did you mean %.*s%s?",
                 (int)section_length(path), path, word);
    } else if (other) {
        snprintf(ret_text, text_size, "no such key; did you mean %s?", other->path);
    } else {
        list_section(path, known, sizeof(known));
        snprintf(ret_text, text_size, "no such key; here can be: %s", known);
    }
}
