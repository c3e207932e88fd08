#include "kernels/cuda/identity.cuh"

#include <dlfcn.h>
#include <errno.h>
#include <kernel_digest.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/attention/attention_choice.cuh"
#include "kernels/identity.h"

#define VERSION_SIZE 16

/* Find the version in the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  ...":
 * the first word that has only digits and points. */
static bool find_version(const char *line, char ret_version[VERSION_SIZE])
{
    for (const char *word = line; *word != '\0';) {
        size_t length = strcspn(word, " \n");
        size_t digits = strspn(word, "0123456789.");
        if (length == digits && memchr(word, '.', length) != NULL) {
            snprintf(ret_version, VERSION_SIZE, "%.*s", (int)length, word);
            return true;
        }
        word += length + strspn(word + length, " \n");
    }
    return false;
}

/* Write the version of the kernel module or, if it cannot be read, of the interface. */
static void driver_version(char ret_version[VERSION_SIZE])
{
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    char line[256] = "";
    int version = 0;
    bool found =
        file != NULL && fgets(line, sizeof(line), file) != NULL && find_version(line, ret_version);

    if (file != NULL)
        (void)fclose(file);
    if (!found && cudaDriverGetVersion(&version) == cudaSuccess)
        snprintf(ret_version, VERSION_SIZE, "CUDA %d", version);
}

/* Write the version of NVRTC, as cuDNN loads it; "none": cuDNN compiles nothing. */
static void nvrtc_version(char ret_version[VERSION_SIZE])
{
    char name[32];
    int (*version)(int *, int *) = NULL;
    int runtime = 0, major = 0, minor = 0;

    snprintf(ret_version, VERSION_SIZE, "none");
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
        return;
    snprintf(name, sizeof(name), "libnvrtc.so.%d", runtime / 1000);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays open: cuDNN may use it */
    if (library != NULL)
        *(void **)&version = dlsym(library, "nvrtcVersion");
    if (version != NULL && version(&major, &minor) == 0)
        snprintf(ret_version, VERSION_SIZE, "%d.%d", major, minor);
}

static size_t add(char *ret_text, size_t size, size_t used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static size_t add(char *ret_text, size_t size, size_t used, const char *format, ...)
{
    va_list arguments;

    if (used >= size)
        return used;
    va_start(arguments, format);
    int length = vsnprintf(ret_text + used, size - used, format, arguments);
    va_end(arguments);
    return used + (length > 0 ? (size_t)length : 0);
}

int cuda_identity(char *ret_text, size_t size, struct error *error)
{
    cudaDeviceProp properties;
    char driver[VERSION_SIZE] = "unknown", nvrtc[VERSION_SIZE];
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);

    if (result == cudaSuccess && count > 0)
        result = cudaGetDeviceProperties(&properties, 0);
    if (result != cudaSuccess || count == 0)
        return error_set(error, -ENODEV, "no GPU: CPU slots only (%s)", cudaGetErrorString(result));
    if (!cuda_device_supported(&properties))
        return error_set(error, -ENOTSUP, "%s is older than what the kernels are for",
                         properties.name);
    size_t cudnn = attention_choices_version();
    driver_version(driver);
    size_t used = add(ret_text, size, 0, "%.36s, %d SMs, cuBLASLt %zu, kernels %d-%s, driver %.11s",
                      properties.name, properties.multiProcessorCount, cublasLtGetVersion(),
                      KERNEL_CUDA_ARITHMETIC, KERNEL_CODE_DIGEST, driver);
    if (cudnn != 0) {
        nvrtc_version(nvrtc);
        (void)add(ret_text, size, used, ", cuDNN %zu, NVRTC %.5s", cudnn, nvrtc);
    }
    return 0;
}
