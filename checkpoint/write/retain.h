/* Taking one checkpoint away: shared by retention (retain.c) and by people (folder_marks.c). */
#pragma once

#include "checkpoint/write/writer.h"

/** retain_remove_folder() - a flat folder with all its files; 0 also when it is not there */
int retain_remove_folder(const char *path, struct error *error) CHECK_RESULT;
/** retain_remove() - rename to .gone, durably, then remove; 0 when it is gone */
int retain_remove(const char *folder, uint64_t step, struct error *error) CHECK_RESULT;
