/* Opening the files of a checkpoint whose manifest has been loaded. */
#pragma once

#include "checkpoint/reader_state.h"

/** reader_open_files() - open and check all files, sort the tensors; what is open stays for
 * checkpoint_close() */
int reader_open_files(struct checkpoint_reader *reader, const char *folder,
                      struct error *error) CHECK_RESULT;
