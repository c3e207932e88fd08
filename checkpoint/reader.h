/*
 * Reads checkpoints: any range of tensors, on any layout, every byte verified.
 */
#pragma once

#include "checkpoint/manifest.h"

struct checkpoint_reader;

/** checkpoint_open() - @folder: of one checkpoint (…/step-0000000120). Checks manifest, files' presence and
    sizes and headers; -ENOENT, -EBADMSG (corrupt or foreign, says file and cause), -EACCES */
int checkpoint_open(const char *folder, struct checkpoint_reader **ret_reader, struct error *error) CHECK_RESULT;
void checkpoint_close(struct checkpoint_reader *reader);
const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader);

/** checkpoint_read() - one tensor whole into @ret_data (count f32), verified against CRC and hash.
    Thread-safe. -ENOENT when there is no such tensor; -EBADMSG names file and chunk */
int checkpoint_read(struct checkpoint_reader *reader, const char *name, enum manifest_role role, float *ret_data,
                    size_t count, struct error *error) CHECK_RESULT;

/** checkpoint_verify() - every byte of every file; 0, or -EBADMSG naming the first bad file and chunk;
    @progress may be NULL */
int checkpoint_verify(struct checkpoint_reader *reader, void (*progress)(void *context, uint64_t done, uint64_t total),
                      void *context, struct error *error) CHECK_RESULT;

/** checkpoint_list() - complete checkpoints below a job's folder, newest first; malloc'ed steps */
int checkpoint_list(const char *folder, uint64_t **ret_steps, size_t *ret_count, struct error *error) CHECK_RESULT;
/** checkpoint_path() - <folder>/step-<10 digits> */
void checkpoint_path(const char *folder, uint64_t step, char ret_path[1024]);
