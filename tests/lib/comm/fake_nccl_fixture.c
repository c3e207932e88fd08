#include "lib/comm/fake_nccl_fixture.h"

#include <dlfcn.h>
#include <stddef.h>

static void *fake_module;
struct fake_nccl *fake_nccl;

int fake_nccl_load(void **state)
{
    (void)state;
    fake_module = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    fake_nccl = fake_module ? dlsym(fake_module, "fake_nccl") : NULL;
    return fake_nccl ? 0 : -1;
}

int fake_nccl_unload(void **state)
{
    (void)state;
    return dlclose(fake_module);
}
