/* Open the files of a checkpoint whose manifest has been loaded. */
#pragma once

#include "checkpoint/format/safetensors.h"
#include "checkpoint/read/reader_state.h"

enum reader_extent {
    READER_ALL,    /* open and check all files */
    READER_WANTED, /* of files with tensors check presence and size; reader_open_file() does the
                      rest */
};

/** reader_open_files() - open and check the files, sort the tensors; checkpoint_close() closes
 * them, also after a failure */
int reader_open_files(struct checkpoint_reader *reader, const char *folder,
                      enum reader_extent extent, struct error *error) CHECK_RESULT;
/** reader_open_file() - open and check a file that has only been looked at; 0 if it is open
 * already. Not from several threads at once */
int reader_open_file(struct checkpoint_reader *reader, const struct reader_file *file,
                     struct error *error) CHECK_RESULT;
/** reader_look_at() - check the presence and size of one file of a checkpoint in @folder; errors of
 * checkpoint_open() */
int reader_look_at(const char *folder, const struct manifest_file *entry,
                   struct error *error) CHECK_RESULT;
/** reader_load_index() - read the verified header of a safetensors file, from the first good
 * copy */
int reader_load_index(const struct checkpoint_reader *reader, const struct reader_file *file,
                      struct safetensors_index *ret_index, struct error *error) CHECK_RESULT;
