/*
 * Run a fuzz target over every file of the folders and files named as arguments: the corpus as a
 * test, with any compiler. Each input is also tried cut short at some lengths and with some bytes
 * changed, so that a decoder meets damaged input even without a fuzzer.
 *
 * With FIRN_FUZZ_SECONDS the replay continues for so long with inputs that are changed at random,
 * from a seed (FIRN_FUZZ_SEED, otherwise of the day) that is printed. An input that crashes a
 * decoder, or takes too long, is left in fuzz-<seed>.input.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX         (1 << 20)
#define INPUT_SECONDS_MAX 10   /* a decoder that is linear in its input takes milliseconds */
#define MEMORY_MAX_MB     1024 /* of the whole program, the sanitizer's own included */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Run the target on its own memory of exactly this size, so that a sanitizer sees one byte too far.
 */
static void run_once(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + (size == 0));
    struct rusage usage;
    memcpy(copy, data, size);
    alarm(INPUT_SECONDS_MAX);
    LLVMFuzzerTestOneInput(copy, size);
    alarm(0);
    free(copy);
    if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss / 1024 > MEMORY_MAX_MB) {
        fprintf(stderr, "an input of %zu bytes took %ld MB\n", size, usage.ru_maxrss / 1024);
        abort();
    }
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

/* ---- random changes ---- */

#define INPUTS_MAX 4096

static struct input {
    uint8_t *data;
    size_t size;
} inputs[INPUTS_MAX], now; /* the corpus; the decoder's current input */
static unsigned input_count;
static uint64_t random_state, seed;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return bound > 0 ? random_state % bound : 0;
}

static void keep_input(const uint8_t *data, size_t size)
{
    if (input_count == INPUTS_MAX)
        return;
    struct input *input = &inputs[input_count++];
    input->data = malloc(size + 1);
    input->size = size;
    memcpy(input->data, data, size);
}

/* Put a piece of another input over the data, or insert the piece. */
static size_t insert_piece(uint8_t *data, size_t size)
{
    const struct input *other = &inputs[random_below(input_count)];
    size_t from = random_below(other->size), length = random_below(other->size - from + 1);
    size_t at = random_below(size + 1);
    if (random_below(2) == 0 || size + length > INPUT_MAX) {
        length = length < size - at ? length : size - at;
    } else {
        memmove(data + at + length, data + at, size - at);
        size += length;
    }
    memcpy(data + at, other->data + from, length);
    return size;
}

static size_t change_once(uint8_t *data, size_t size)
{
    static const uint8_t telling[] = {0, 0xff, 0x7f, 0x80, '0', '9', '"', '{', '}', '[', ']', ','};
    size_t at = random_below(size);
    switch (size == 0 ? 4 : random_below(6)) {
    case 0:
        data[at] ^= (uint8_t)(1u << random_below(8));
        return size;
    case 1:
        data[at] = telling[random_below(sizeof(telling))];
        return size;
    case 2:
        return at; /* cut short */
    case 3: {
        size_t length = random_below(size - at + 1);
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    }
    default:
        return insert_piece(data, size);
    }
}

static char died_path[64]; /* made beforehand: a handler may not print */

static void leave_input(int signal_number)
{
    static const char said[] = "the input is left in the current folder: fuzz-<seed>.input\n";
    int descriptor = open(died_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (descriptor >= 0 && write(descriptor, now.data, now.size) == (ssize_t)now.size &&
        write(STDERR_FILENO, said, sizeof(said) - 1) < 0)
        _exit(1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int fuzz(double seconds)
{
    static uint8_t data[2 * INPUT_MAX];
    const char *seed_text = getenv("FIRN_FUZZ_SEED");
    time_t end = time(NULL) + (time_t)seconds;
    seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL) / 86400;
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    snprintf(died_path, sizeof(died_path), "fuzz-%llu.input", (unsigned long long)seed);
    signal(SIGABRT, leave_input);
    signal(SIGSEGV, leave_input);
    signal(SIGALRM, leave_input);
    unsigned long long number = 0;
    for (; time(NULL) < end; number++) {
        const struct input *from = &inputs[random_below(input_count)];
        size_t size = from->size;
        memcpy(data, from->data, size);
        for (uint64_t changes = 1 + random_below(8); changes > 0; changes--)
            size = change_once(data, size);
        now = (struct input){data, size};
        run_once(data, size);
    }
    printf("%llu random inputs, seed %llu\n", (unsigned long long)number, (unsigned long long)seed);
    return 0;
}

/* ---- the corpus ---- */

static int run_file(const char *path)
{
    static uint8_t content[INPUT_MAX];
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(content, 1, sizeof(content), file);
    fclose(file);
    keep_input(content, size);
    run_damaged(content, size);
    return 0;
}

static int run_folder(const char *path, unsigned *count)
{
    DIR *directory = opendir(path);
    if (!directory) {
        (*count)++;
        return run_file(path);
    }
    int failed = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
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
    const char *seconds = getenv("FIRN_FUZZ_SECONDS");
    if (seconds && input_count > 0)
        failed |= fuzz(strtod(seconds, NULL));
    return failed || count == 0;
}
