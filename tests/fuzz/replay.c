/*
 * Runs a fuzz target over every file of the folders and files named as arguments: the corpus as a
 * test, with any compiler. Each input is also tried cut short at some lengths and with some bytes
 * changed, so that even without a fuzzer a decoder meets damaged input every time.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of its own of exactly this size, so that a sanitizer sees one byte too far. */
static void run_once(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + (size == 0));
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_damaged(uint8_t *data, size_t size)
{
    run_once(data, size);
    for (size_t length = 0; length < size; length += 1 + size / 64)
        run_once(data, length);
    for (size_t at = 0; at < size; at += 1 + size / 256) {
        uint8_t before = data[at];
        for (unsigned bit = 0; bit < 8; bit++) {
            data[at] = before ^ (uint8_t)(1u << bit);
            run_once(data, size);
        }
        data[at] = before;
    }
}

static int run_file(const char *path)
{
    static uint8_t content[INPUT_MAX];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t size = fread(content, 1, sizeof(content), file);
    fclose(file);
    run_damaged(content, size);
    return 0;
}

static int run_folder(const char *path, unsigned *count)
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        (*count)++;
        return run_file(path);
    }
    int failed = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char inside[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        failed |= run_file(inside);
        (*count)++;
    }
    closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run_folder(argv[i], &count);
    printf("%u inputs\n", count);
    return failed || count == 0;
}
