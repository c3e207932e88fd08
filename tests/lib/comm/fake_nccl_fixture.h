/* The group fixture of tests on the fake NCCL: it stays loaded, and `fake` sets its behaviour. */
#pragma once

#include "unit/comm/fake_nccl.h"

extern struct fake_nccl *fake_nccl;

/** fake_nccl_load() - load the fake NCCL; for the group of tests */
int fake_nccl_load(void **state);

/** fake_nccl_unload() - undo fake_nccl_load() */
int fake_nccl_unload(void **state);
