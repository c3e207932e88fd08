/*
 * Problem: a worker needs files of nodes that may have no worker in its generation.
 *
 * Design: libcurl, blocking, one easy handle per request in flight. A small pool keeps handles and
 * their connections. A response is written directly to the caller's buffer and is never longer than
 * the requested range.
 */
#include "checkpoint/remote/remote.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/http_url.h"
#include "base/timeouts.h"
#include "checkpoint/remote/remote_state.h"

#define URL_SIZE 512

#define ASK_AGAIN_NS (NS_PER_SECOND / 20)

struct answer {
    uint8_t *data;
    size_t size_bytes, room_bytes;
    char refusal[160]; /* the beginning of a body that is not the file */
    size_t refusal_bytes;
    CURL *handle;
    const atomic_bool *stop;
};

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int checkpoint_remote_new(const struct checkpoint_remote_options *options,
                          struct checkpoint_remote **ret_remote, struct error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct checkpoint_remote *remote = calloc(1, sizeof(*remote));
    struct checkpoint_remote_node *nodes = calloc((size_t)options->node_count + 1, sizeof(*nodes));
    uint64_t *away_until_ns = calloc((size_t)options->node_count + 1, sizeof(*away_until_ns));
    bool *silent = calloc((size_t)options->node_count + 1, sizeof(*silent));
    if (!remote || !nodes || !away_until_ns || !silent) {
        free(remote);
        free(nodes);
        free(away_until_ns);
        free(silent);
        return error_set(error, -ENOMEM, "no memory to reach other nodes' checkpoints");
    }
    pthread_once(&once, start_curl);
    snprintf(remote->job, sizeof(remote->job), "%s", options->job);
    memcpy(remote->key, options->key, sizeof(remote->key));
    if (options->node_count > 0)
        memcpy(nodes, options->nodes, options->node_count * sizeof(*nodes));
    remote->nodes = nodes;
    remote->node_count = options->node_count;
    remote->away_until_ns = away_until_ns;
    remote->silent = silent;
    remote->timeout_ns = options->timeout_ns;
    remote->timeout_ms = (long)(options->timeout_ns / NS_PER_MS);
    remote->stop = options->stop;
    pthread_mutex_init(&remote->lock, NULL);
    *ret_remote = remote;
    return 0;
}

void checkpoint_remote_free(struct checkpoint_remote *remote)
{
    if (!remote)
        return;
    for (unsigned i = 0; i < remote->pool_count; i++)
        curl_easy_cleanup(remote->pool[i]);
    pthread_mutex_destroy(&remote->lock);
    free(remote->away_until_ns);
    free(remote->silent);
    free(remote->nodes);
    free(remote);
}

unsigned checkpoint_remote_count(const struct checkpoint_remote *remote)
{
    return remote->node_count;
}

const char *checkpoint_remote_name(const struct checkpoint_remote *remote, unsigned index)
{
    return remote->nodes[index].name;
}

bool checkpoint_remote_silent(const struct checkpoint_remote *remote, unsigned index)
{
    return __atomic_load_n(&remote->silent[index], __ATOMIC_RELAXED);
}

static CURL *take_handle(struct checkpoint_remote *remote)
{
    CURL *handle = NULL;
    pthread_mutex_lock(&remote->lock);
    if (remote->pool_count > 0)
        handle = remote->pool[--remote->pool_count];
    pthread_mutex_unlock(&remote->lock);
    return handle ? handle : curl_easy_init();
}

static void put_handle(struct checkpoint_remote *remote, CURL *handle)
{
    pthread_mutex_lock(&remote->lock);
    bool kept = remote->pool_count < POOL_MAX;
    if (kept)
        remote->pool[remote->pool_count++] = handle;
    pthread_mutex_unlock(&remote->lock);
    if (!kept)
        curl_easy_cleanup(handle);
}

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
    struct answer *answer = context;
    long code = 0;
    size *= one;
    curl_easy_getinfo(answer->handle, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200) {
        const char *end = memchr(data, '\n', size);
        size_t taken = MIN(sizeof(answer->refusal) - 1 - answer->refusal_bytes,
                           end ? (size_t)(end - data) : size);
        memcpy(answer->refusal + answer->refusal_bytes, data, taken);
        answer->refusal_bytes += taken;
        return size;
    }
    if (size > answer->room_bytes - answer->size_bytes)
        return 0; /* longer than requested: 0 makes libcurl end the transfer */
    memcpy(answer->data + answer->size_bytes, data, size);
    answer->size_bytes += size;
    return size;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct answer *answer = context;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return answer->stop && atomic_load(answer->stop);
}

/* libcurl copies texts and may run out of memory; the other options cannot fail. */
static bool prepare(const struct checkpoint_remote *remote, CURL *handle, const char *url,
                    struct curl_slist *headers, struct answer *answer)
{
    if (curl_easy_setopt(handle, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(handle, CURLOPT_PROXY, "") != CURLE_OK) /* ignore http_proxy */
        return false;
    if (http_url_authorities() &&
        curl_easy_setopt(handle, CURLOPT_CAINFO, http_url_authorities()) != CURLE_OK)
        return false;
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, remote->timeout_ms);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, MAX(2 * remote->timeout_ms / 1000, 2L));
    curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, answer);
    return true;
}

/* Return whether the host did not respond at all, not even with a refused connection. */
static bool gave_no_sign(CURLcode result, CURL *handle)
{
    curl_off_t connected_us = 0;
    long number = 0;
    if (result != CURLE_COULDNT_CONNECT && result != CURLE_OPERATION_TIMEDOUT)
        return false;
    curl_easy_getinfo(handle, CURLINFO_CONNECT_TIME_T, &connected_us);
    curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, &number);
    return connected_us == 0 && number != ECONNREFUSED;
}

/* Map the result of libcurl or the response of the other firnd to an error of this interface. */
static int judge(const struct checkpoint_range *range, const struct checkpoint_remote_node *node,
                 CURLcode result, const struct answer *answer, struct error *error)
{
    long code = 0;
    curl_easy_getinfo(answer->handle, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_ABORTED_BY_CALLBACK)
        return error_set(error, -ECANCELED, "reading %s/%s from node %s was given up",
                         range->folder, range->file, node->name);
    if (result == CURLE_OUT_OF_MEMORY)
        return error_set(error, -ENOMEM, "no memory to ask node %s", node->name);
    if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE)
        return error_set(error, -EHOSTUNREACH,
                         "node %s (http %s) shows a certificate that is not trusted here (%s): "
                         "http_authorities of firnd.yaml, or FIRN_AUTHORITIES, names the file of "
                         "its authority",
                         node->name, node->http, curl_easy_strerror(result));
    if (result != CURLE_OK)
        return error_set(error, -EHOSTUNREACH, "node %s (http %s) cannot be asked for %s/%s: %s",
                         node->name, node->http, range->folder, range->file,
                         curl_easy_strerror(result));
    if (code == 200)
        return 0;
    return error_set(error,
                     code == 404   ? -ENOENT
                     : code == 403 ? -EACCES
                     : code == 500 ? -EIO
                                   : -EHOSTUNREACH,
                     "node %s has no %s/%s to give: %s (%ld)", node->name, range->folder,
                     range->file, answer->refusal[0] != '\0' ? answer->refusal : "no reason", code);
}

static int ask(struct checkpoint_remote *remote, const struct checkpoint_remote_node *node,
               const struct checkpoint_range *range, struct answer *answer, struct error *error)
{
    char url[URL_SIZE], header[128], proof[CHECKPOINT_PROOF_SIZE];
    checkpoint_proof(remote->key, range, proof);
    snprintf(header, sizeof(header), "%s: %s", CHECKPOINT_PROOF_HEADER, proof);
    int length =
        snprintf(url, sizeof(url), "%s%s/v1/jobs/%s/checkpoints/%s/%s?at=%llu&bytes=%llu",
                 http_url_scheme(node->http), node->http, range->job, range->folder, range->file,
                 (unsigned long long)range->offset, (unsigned long long)range->size_bytes);
    struct curl_slist *headers = curl_slist_append(NULL, header);
    answer->handle = take_handle(remote);
    if (!headers || !answer->handle || length >= (int)sizeof(url)) {
        curl_slist_free_all(headers);
        if (answer->handle)
            curl_easy_cleanup(answer->handle);
        return error_set(error, -ENOMEM, "no memory to ask node %s", node->name);
    }
    CURLcode result = prepare(remote, answer->handle, url, headers, answer)
                          ? curl_easy_perform(answer->handle)
                          : CURLE_OUT_OF_MEMORY;
    int status = judge(range, node, result, answer, error);
    __atomic_store_n(&remote->silent[node - remote->nodes], gave_no_sign(result, answer->handle),
                     __ATOMIC_RELAXED);
    curl_easy_setopt(answer->handle, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    put_handle(remote, answer->handle);
    return status;
}

/* Retry while the other firnd refuses, because it may not know this generation yet. */
static int ask_patiently(struct checkpoint_remote *remote,
                         const struct checkpoint_remote_node *node,
                         const struct checkpoint_range *range, struct answer *answer,
                         struct error *error)
{
    const struct timespec pause = {0, ASK_AGAIN_NS};
    uint64_t *away_until_ns = &remote->away_until_ns[node - remote->nodes];
    uint64_t now_ns = clock_monotonic_ns(), patient_ns = now_ns + remote->timeout_ns;
    if (now_ns < __atomic_load_n(away_until_ns, __ATOMIC_RELAXED))
        return error_set(error, -EHOSTUNREACH, "node %s (http %s) does not answer", node->name,
                         node->http);
    for (;;) {
        int status = ask(remote, node, range, answer, error);
        if (status == -EHOSTUNREACH)
            __atomic_store_n(away_until_ns,
                             clock_monotonic_ns() + TIMEOUTS_REMOTE_AWAY * remote->timeout_ns,
                             __ATOMIC_RELAXED);
        if (status != -EACCES)
            return status;
        if (clock_monotonic_ns() >= patient_ns || on_progress(answer, 0, 0, 0, 0))
            return -EHOSTUNREACH;
        nanosleep(&pause, NULL);
        answer->size_bytes = answer->refusal_bytes = 0;
    }
}

static const struct checkpoint_remote_node *find_node(const struct checkpoint_remote *remote,
                                                      const char *name)
{
    for (unsigned i = 0; i < remote->node_count; i++) {
        if (strcmp(remote->nodes[i].name, name) == 0 && remote->nodes[i].http[0] != '\0')
            return &remote->nodes[i];
    }
    return NULL;
}

/* Read one range, as far as the file goes. */
static int read_range(struct checkpoint_remote *remote, const struct checkpoint_remote_node *node,
                      const struct checkpoint_range *range, uint8_t *ret_data, size_t *ret_size,
                      struct error *error)
{
    struct answer answer = {
        .data = ret_data, .room_bytes = (size_t)range->size_bytes, .stop = remote->stop};
    int status = ask_patiently(remote, node, range, &answer, error);
    *ret_size = answer.size_bytes;
    return status;
}

/* Read one range of an answer that ends with a seal, and check the seal. */
static int read_sealed(struct checkpoint_remote *remote, const struct checkpoint_remote_node *node,
                       const struct checkpoint_range *range, uint8_t *ret_data, size_t *ret_size,
                       struct error *error)
{
    char proof[CHECKPOINT_PROOF_SIZE];
    uint8_t seal[CHECKPOINT_SEAL_SIZE];
    size_t room = (size_t)range->size_bytes + CHECKPOINT_SEAL_SIZE;
    AUTO_FREE uint8_t *data = malloc(room);
    struct answer answer = {.data = data, .room_bytes = room, .stop = remote->stop};
    if (!data)
        return error_set(error, -ENOMEM, "no memory for %s/%s of node %s", range->folder,
                         range->file, node->name);
    int status = ask_patiently(remote, node, range, &answer, error);
    if (status != 0)
        return status;
    size_t size = answer.size_bytes - MIN(answer.size_bytes, (size_t)CHECKPOINT_SEAL_SIZE);
    checkpoint_proof(remote->key, range, proof);
    checkpoint_seal(remote->key, proof, data, size, seal);
    if (answer.size_bytes < CHECKPOINT_SEAL_SIZE ||
        sodium_memcmp(seal, data + size, CHECKPOINT_SEAL_SIZE) != 0)
        return error_set(error, -EBADMSG, "%s/%s of node %s was changed on the way", range->folder,
                         range->file, node->name);
    memcpy(ret_data, data, size);
    *ret_size = size;
    return 0;
}

int checkpoint_remote_read(struct checkpoint_remote *remote, const char *node, const char *folder,
                           const char *file, uint64_t offset, void *ret_data, size_t size_bytes,
                           size_t *ret_size, struct error *error)
{
    const struct checkpoint_remote_node *found = find_node(remote, node);
    size_t done = 0;
    if (!found)
        return error_set(error, -EHOSTUNREACH, "node %s, which has %s/%s, is away", node, folder,
                         file);
    while (done < size_bytes) {
        const struct checkpoint_range range = {
            .job = remote->job,
            .folder = folder,
            .file = file,
            .offset = offset + done,
            .size_bytes = MIN(size_bytes - done, CHECKPOINT_REMOTE_MAX),
        };
        uint8_t *data = (uint8_t *)ret_data + done;
        size_t size = 0;
        int status = checkpoint_is_sealed(folder)
                         ? read_sealed(remote, found, &range, data, &size, error)
                         : read_range(remote, found, &range, data, &size, error);
        if (status != 0)
            return status;
        done += size;
        if (size < range.size_bytes)
            break;
    }
    *ret_size = done;
    return 0;
}

int checkpoint_remote_get(struct checkpoint_remote *remote, const char *node, const char *folder,
                          const char *file, size_t size_max, struct bytes *into,
                          struct error *error)
{
    const size_t piece = (size_t)1 << 20;
    AUTO_FREE uint8_t *data = malloc(piece);
    for (size_t done = 0;;) {
        size_t size = 0;
        int status = !data ? -ENOMEM
                           : checkpoint_remote_read(remote, node, folder, file, done, data, piece,
                                                    &size, error);
        if (status == 0 && done + size > size_max)
            status = error_set(error, -EFBIG, "%s/%s on node %s is longer than %zu bytes", folder,
                               file, node, size_max);
        if (status == 0)
            status = bytes_append(into, data, size);
        if (status == -ENOMEM)
            return error_set(error, status, "no memory for %s/%s of node %s", folder, file, node);
        if (status != 0 || size < piece)
            return status;
        done += size;
    }
}
