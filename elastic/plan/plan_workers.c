#include "elastic/plan/plan_workers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_MAX      25u /* the letters a to z */
#define INSTANCE_DIGITS 16

/* ---- writing ---- */

static unsigned shared_begin(const char *before, const char *text)
{
    unsigned length = 0;
    while (length < SHARED_MAX && before[length] != '\0' && before[length] == text[length])
        length++;
    return length;
}

/* Return the length of the common suffix after the first @begin characters of both. */
static unsigned shared_end(const char *before, const char *text, size_t begin)
{
    size_t before_length = strlen(before), text_length = strlen(text);
    size_t most = MIN(MIN(before_length, text_length) - begin, (size_t)SHARED_MAX);
    unsigned length = 0;
    while (length < most && before[before_length - 1 - length] == text[text_length - 1 - length])
        length++;
    return length;
}

static int pack_word(const char *before, const char *word, struct bytes *text)
{
    unsigned begin = shared_begin(before, word), end = shared_end(before, word, begin);
    return bytes_append_format(text, "%c%c%.*s", (int)('a' + begin), (int)('a' + end),
                               (int)(strlen(word) - begin - end), word + begin);
}

static int pack_worker(const struct plan_worker *before, const struct plan_worker *worker,
                       struct bytes *text)
{
    int status = pack_word(before->node, worker->node, text);
    if (status == 0)
        status = bytes_append_format(text, " %u ", worker->slot);
    if (status == 0)
        status = pack_word(before->address, worker->address, text);
    return status < 0 ? status : bytes_append_format(text, " %" PRIx64, worker->instance);
}

int plan_workers_pack(const struct plan_worker *workers, unsigned count, struct bytes *text)
{
    static const struct plan_worker nobody;
    for (unsigned i = 0; i < count; i++) {
        if (strpbrk(workers[i].address, " ,") || strpbrk(workers[i].node, " ,"))
            return -EINVAL;
        int status = i > 0 ? bytes_append(text, ",", 1) : 0;
        if (status == 0)
            status = pack_worker(i > 0 ? &workers[i - 1] : &nobody, &workers[i], text);
        if (status < 0)
            return status;
    }
    return 0;
}

/* ---- reading ---- */

/* The text that is left to read. */
struct cursor {
    const char *at, *end;
};

/* Take the next word. @separator must follow it unless it is the last word of the text. */
static bool take_word(struct cursor *cursor, char separator, const char **ret_word,
                      size_t *ret_length)
{
    const char *word = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != ' ' && *cursor->at != ',')
        cursor->at++;
    *ret_word = word;
    *ret_length = (size_t)(cursor->at - word);
    if (cursor->at == cursor->end)
        return separator == ',';
    return *cursor->at++ == separator;
}

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* Decode two letters for the parts shared with @before, then the text between them. */
static bool take_text(struct cursor *cursor, const char *before, char *ret_text, size_t size)
{
    const char *word;
    size_t length;
    if (!take_word(cursor, ' ', &word, &length) || length < 2 || !is_letter(word[0]) ||
        !is_letter(word[1]))
        return false;
    size_t begin = (size_t)(word[0] - 'a'), end = (size_t)(word[1] - 'a'), between = length - 2;
    size_t before_length = strlen(before);
    if (begin + end > before_length || begin + between + end >= size || memchr(word, '\0', length))
        return false;
    memcpy(ret_text, before, begin);
    memcpy(ret_text + begin, word + 2, between);
    memcpy(ret_text + begin + between, before + before_length - end, end);
    ret_text[begin + between + end] = '\0';
    return true;
}

static bool take_slot(struct cursor *cursor, unsigned *ret_slot)
{
    const char *word;
    size_t length;
    unsigned slot = 0;
    if (!take_word(cursor, ' ', &word, &length) || length == 0 || length > 2)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        slot = 10 * slot + (unsigned)(word[i] - '0');
    }
    *ret_slot = slot;
    return slot < PLAN_SLOTS_MAX;
}

static bool take_instance(struct cursor *cursor, uint64_t *ret_instance)
{
    const char *word;
    size_t length;
    uint64_t instance = 0;
    if (!take_word(cursor, ',', &word, &length) || length == 0 || length > INSTANCE_DIGITS)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool letter = word[i] >= 'a' && word[i] <= 'f';
        if (!letter && (word[i] < '0' || word[i] > '9'))
            return false;
        instance = instance << 4 | (unsigned)(letter ? word[i] - 'a' + 10 : word[i] - '0');
    }
    *ret_instance = instance;
    return true;
}

static bool take_worker(struct cursor *cursor, const struct plan_worker *before,
                        struct plan_worker *ret_worker)
{
    return take_text(cursor, before->node, ret_worker->node, sizeof(ret_worker->node)) &&
           take_slot(cursor, &ret_worker->slot) &&
           take_text(cursor, before->address, ret_worker->address, sizeof(ret_worker->address)) &&
           take_instance(cursor, &ret_worker->instance);
}

static size_t count_workers(const char *text, size_t length)
{
    size_t count = length > 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',';
    return count;
}

int plan_workers_unpack(const char *text, size_t length, struct plan_worker **ret_workers,
                        unsigned *ret_count, struct error *error)
{
    static const struct plan_worker nobody;
    struct cursor cursor = {text, length > 0 ? text + length : text};
    size_t count = count_workers(text, length);
    if (count > PLAN_RANKS_MAX)
        return error_set(error, -EINVAL, "\"workers\" has %zu, more than %u", count,
                         PLAN_RANKS_MAX);
    struct plan_worker *workers = calloc(count + 1, sizeof(*workers));
    if (!workers)
        return error_set(error, -ENOMEM, "no memory for %zu workers", count);
    for (size_t i = 0; i < count; i++) {
        if (!take_worker(&cursor, i > 0 ? &workers[i - 1] : &nobody, &workers[i])) {
            free(workers);
            return error_set(error, -EINVAL,
                             "\"workers\" is damaged at worker %zu: it must be \"node slot address "
                             "instance\", packed",
                             i);
        }
    }
    *ret_workers = workers;
    *ret_count = (unsigned)count;
    return 0;
}
