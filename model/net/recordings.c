#include "model/net/recordings.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

#define RECORDINGS_MAX 4096 /* per stage; later calls are not recorded */

struct entry {
    struct entry *next; /* in the same place */
    struct recording_key key;
    struct kernel_recording *recording; /* NULL: the calls were made once, unrecorded */
};

struct recordings {
    const struct kernel *kernel;
    struct kernel_device *device;
    unsigned place_count, entry_count;
    struct entry **places;
    bool off;
    bool making;             /* unrecorded calls are being made */
    struct entry *recording; /* the entry being recorded; NULL: none */
};

int recordings_new(const struct kernel *kernel, struct kernel_device *device, unsigned place_count,
                   struct recordings **ret_recordings)
{
    struct recordings *r = calloc(1, sizeof(*r));

    if (!r || !(r->places = calloc(place_count, sizeof(struct entry *)))) {
        free(r);
        return -ENOMEM;
    }
    r->kernel = kernel;
    r->device = device;
    r->place_count = place_count;
    r->off = !kernel->record_begin;
    *ret_recordings = r;
    return 0;
}

void recordings_forget(struct recordings *r)
{
    for (unsigned place = 0; place < r->place_count; place++)
        for (struct entry *entry = r->places[place], *next; entry; entry = next) {
            next = entry->next;
            if (entry->recording)
                r->kernel->recording_free(r->device, entry->recording);
            free(entry);
        }
    for (unsigned place = 0; place < r->place_count; place++)
        r->places[place] = NULL;
    r->entry_count = 0;
}

void recordings_free(struct recordings *r)
{
    if (!r)
        return;
    recordings_forget(r);
    free(r->places);
    free(r);
}

static bool same(const struct recording_key *a, const struct recording_key *b)
{
    return a->weights == b->weights && a->gradient == b->gradient &&
           a->want_input_gradient == b->want_input_gradient;
}

static struct entry *find(const struct recordings *r, const struct recording_key *key)
{
    assert(key->place < r->place_count);
    struct entry *entry = r->places[key->place];

    while (entry && !same(&entry->key, key))
        entry = entry->next;
    return entry;
}

/* Add an entry. If memory is short, its calls are made every time. */
static void add(struct recordings *r, const struct recording_key *key)
{
    struct entry *entry = r->entry_count < RECORDINGS_MAX ? calloc(1, sizeof(*entry)) : NULL;

    if (!entry)
        return;
    *entry = (struct entry){.next = r->places[key->place], .key = *key};
    r->places[key->place] = entry;
    r->entry_count++;
}

/* Stop recording. -ENOTSUP is not logged: recording is switched off. */
static void give_up(struct recordings *r, int status, const struct error *error)
{
    if (status != -ENOTSUP)
        log_write(LOG_LEVEL_WARNING, "the device's calls are made one by one: %s", error->text);
    r->off = true;
}

static bool record(struct recordings *r, struct entry *entry)
{
    struct error error = {0};
    int status = r->kernel->record_begin(r->device, &error);

    if (status)
        give_up(r, status, &error);
    else
        r->recording = entry;
    r->making = status != 0;
    return true;
}

/* The calls were recorded, not executed: replay them or, after a failure, make them again. */
static bool end_recording(struct recordings *r)
{
    struct entry *entry = r->recording;
    struct error error = {0};
    int status = r->kernel->record_end(r->device, &entry->recording, &error);

    r->recording = NULL;
    if (status)
        give_up(r, status, &error);
    else
        r->kernel->replay(r->device, entry->recording);
    r->making = status != 0;
    return r->making;
}

bool recordings_next(struct recordings *r, const struct recording_key *key)
{
    if (r->recording)
        return end_recording(r);
    if (r->making) {
        r->making = false;
        return false;
    }
    struct entry *entry = r->off ? NULL : find(r, key);

    if (entry && entry->recording) {
        r->kernel->replay(r->device, entry->recording);
        return false;
    }
    if (entry)
        return record(r, entry);
    if (!r->off)
        add(r, key);
    r->making = true;
    return true;
}
