/* The group fixture of tests that run on the fake NCCL: it stays loaded, and `fake` is its play. */
#pragma once

#include <dlfcn.h>

#include "unit/comm/fake_nccl.h"

static void *fake_module;
static struct fake_nccl *fake;

static int fake_nccl_load(void **state)
{
    (void)state;
    fake_module = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    fake = fake_module ? dlsym(fake_module, "fake_nccl") : NULL;
    return fake ? 0 : -1;
}

static int fake_nccl_unload(void **state)
{
    (void)state;
    return dlclose(fake_module);
}
