/*
 * The token of a user: fetched before the first request, and again when etcd refuses it.
 *
 * Requests that need the token wait in a list while one authenticate request is in flight. If that
 * fails, all waiting requests fail with its reason, from the event loop: one of them may have
 * started the authentication, and no request may call back from inside the call that started it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/etcd/etcd_internal.h"

static void forget_text(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

bool etcd_auth_needed(const struct etcd *etcd)
{
    return etcd->user && !etcd->token;
}

void etcd_auth_refused(struct etcd *etcd, uint64_t token_number)
{
    if (etcd->token_number == token_number)
        forget_text(&etcd->token);
}

/* Keep the token in the form in which it is sent, as metadata. */
int etcd_auth_set(struct etcd *etcd, const char *token)
{
    char *metadata = NULL;
    if (asprintf(&metadata, "%s%s", token ? "token: " : "", token ? token : "") < 0)
        return -ENOMEM;
    forget_text(&etcd->token);
    etcd->token = metadata;
    etcd->token_number++;
    return 0;
}

static void fail_waiting(void *user)
{
    struct etcd *etcd = user;
    struct kv_result result = {.status = etcd->auth_error.code, .error = etcd->auth_error};
    struct kv_request *failed = NULL;
    while (etcd->waiting) /* move them first: requests that start to wait later do not fail here */
        etcd_request_list(&failed, etcd->waiting);
    while (failed)
        etcd_request_finish(failed, &result);
}

static void fail(struct etcd *etcd, const struct error *error)
{
    etcd->auth_error = *error;
    timer_set_in(&etcd->waiting_failed, 0);
}

static void send_waiting(struct etcd *etcd)
{
    while (etcd->waiting) {
        struct kv_request *request = etcd->waiting;
        etcd_request_list(&etcd->requests, request);
        int status = etcd_request_send(request);
        if (status < 0) {
            struct error error;
            etcd_request_list(&etcd->waiting, request);
            error_set(&error, status, "a request to etcd cannot be sent: %s", strerror(-status));
            fail(etcd, &error);
            return;
        }
    }
}

static void authenticated(void *user, const struct kv_result *result)
{
    struct etcd *etcd = user;
    etcd->authenticating = NULL;
    /* A server without authentication needs no token. */
    bool none_wanted = result->status == -EOPNOTSUPP && etcd_auth_set(etcd, NULL) == 0;
    if (result->status == 0 || none_wanted) {
        send_waiting(etcd);
        return;
    }
    struct error error = result->error;
    if (result->status == -EACCES)
        error_set(&error, -EACCES,
                  "%s (user \"%s\"): check the user's name and password and its rights",
                  result->error.text, etcd->user);
    fail(etcd, &error);
}

static int authenticate(struct etcd *etcd)
{
    struct kv_request *request;
    int status = etcd_request_new(etcd, ETCD_AUTHENTICATE, true, authenticated, etcd, &request);
    if (status < 0)
        return status;
    status = etcd_encode_authenticate(&request->body, etcd->user, etcd->password);
    if (status == 0)
        status = etcd_request_send(request);
    if (status < 0) {
        etcd_request_free(request);
        return status;
    }
    etcd->authenticating = request;
    return 0;
}

int etcd_auth_wait(struct etcd *etcd, struct kv_request *request)
{
    if (!etcd->authenticating) {
        int status = authenticate(etcd);
        if (status < 0)
            return status;
    }
    etcd_request_list(&etcd->waiting, request);
    return 0;
}

int etcd_auth_init(struct etcd *etcd)
{
    return timer_init(&etcd->waiting_failed, etcd->loop, fail_waiting, etcd);
}

void etcd_auth_done(struct etcd *etcd)
{
    while (etcd->waiting)
        etcd_request_free(etcd->waiting);
    timer_done(&etcd->waiting_failed);
    forget_text(&etcd->token);
    forget_text(&etcd->password);
}
