/* Taking one checkpoint away: shared by retention (retain.c) and by people (keep.c). */
#pragma once

#include "checkpoint/writer.h"

/** retain_remove() - rename to .gone, durably, then remove; 0 when it is gone */
int retain_remove(const char *folder, uint64_t step, struct error *error) CHECK_RESULT;
