#include "kernels/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/backend.h"
#include "kernels/identity.h"

#define LIBRARY "libfirn-cuda.so"

/* Variables by which CUDA's libraries compute in another precision than they are asked to. Each
 * process has its own environment, so results would differ between nodes that register alike. */
static const char *const overrides[] = {"NVIDIA_TF32_OVERRIDE"};

/* Return the folder of the running program, without the last slash; "" when it is not known. */
static void program_folder(char *ret_folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", ret_folder, size - 1);
    char *slash;

    ret_folder[length < 0 ? 0 : length] = '\0';
    slash = strrchr(ret_folder, '/');
    if (slash)
        *slash = '\0';
    else
        ret_folder[0] = '\0';
}

static bool exists(const char *path)
{
    return access(path, R_OK) == 0;
}

/* Find the path of the library. A bare name leaves the search to the dynamic loader. */
static void find_library(char *ret_path, size_t size)
{
    static const char *const places[] = {"", "/../lib/firn", "/../lib", "/../bin"};
    const char *named = getenv("FIRN_CUDA_LIBRARY");
    char folder[PATH_MAX];

    if (named && named[0]) {
        snprintf(ret_path, size, "%s", named);
        return;
    }
    program_folder(folder, sizeof(folder));
    for (size_t i = 0; folder[0] && i < ARRAY_COUNT(places); i++) {
        int length = snprintf(ret_path, size, "%s%s/%s", folder, places[i], LIBRARY);
        if (length > 0 && (size_t)length < size && exists(ret_path))
            return;
    }
    snprintf(ret_path, size, "%s", LIBRARY);
}

static int load_failed(const char *path, struct error *error)
{
    const char *why = dlerror();
    bool missing = strchr(path, '/') ? !exists(path) : strstr(why ? why : "", path) != NULL;

    if (missing)
        return error_set(error, -ENOENT,
                         "no GPU backend: %s was not found; CPU slots only (FIRN_CUDA_LIBRARY can "
                         "name it)",
                         path);
    return error_set(error, -ELIBBAD, "the GPU backend cannot be loaded: %s", why ? why : path);
}

static int load(const struct cuda_backend **ret_backend, struct error *error)
{
    char path[PATH_MAX];
    const struct cuda_backend *(*entry)(void);

    find_library(path, sizeof(path));
    for (size_t i = 0; i < ARRAY_COUNT(overrides); i++)
        unsetenv(overrides[i]);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: kernels stay loaded */
    if (!library)
        return load_failed(path, error);
    *(void **)&entry = dlsym(library, CUDA_BACKEND_SYMBOL);
    const struct cuda_backend *backend = entry ? entry() : NULL;
    if (!backend || backend->table_size != sizeof(struct kernel)) {
        dlclose(library);
        return error_set(error, -ELIBBAD, "%s is not of this build of firn: install both together",
                         path);
    }
    *ret_backend = backend;
    return 0;
}

/* Load the library once. It is never unloaded. */
static int loaded_backend(const struct cuda_backend **ret_backend, struct error *error)
{
    static const struct cuda_backend *loaded;
    int status = loaded ? 0 : load(&loaded, error);

    *ret_backend = loaded;
    return status;
}

int kernel_backend(enum kernel_backend backend, enum kernel_precision precision,
                   const struct kernel **ret_kernel, struct error *error)
{
    const struct cuda_backend *loaded;

    if (backend == KERNEL_BACKEND_CPU) {
        if (precision != KERNEL_PRECISION_F32)
            return error_set(error, -ENOTSUP, "CPU slots compute in f32 alone");
        *ret_kernel = kernel_cpu();
        return 0;
    }
    int status = loaded_backend(&loaded, error);
    if (status < 0)
        return status;
    *ret_kernel = precision == KERNEL_PRECISION_BF16   ? loaded->bf16
                  : precision == KERNEL_PRECISION_TF32 ? loaded->tf32
                                                       : loaded->f32;
    return 0;
}

int kernel_backend_identity(enum kernel_backend backend, char *ret_text, size_t size,
                            struct error *error)
{
    const struct cuda_backend *loaded;

    if (backend == KERNEL_BACKEND_CPU) {
        kernel_cpu_identity(ret_text, size);
        return 0;
    }
    int status = loaded_backend(&loaded, error);
    return status < 0 ? status : loaded->identity(ret_text, size, error);
}
