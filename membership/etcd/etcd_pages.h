/*
 * A range that is read page by page, since an answer has a largest size and a cluster's keys do
 * not: the reports of thousands of workers are hundreds of megabytes. All pages are of the revision
 * of the first one. A page that is too large is asked for again with a quarter of the keys.
 */
#pragma once

#include <stdbool.h>

#include "membership/etcd/etcd_codec.h"

struct etcd_pages;

/** etcd_pages_new() - of the keys below @prefix and, unless it is NULL, before @before; both are
 * copied. NULL: no memory */
struct etcd_pages *etcd_pages_new(const char *prefix, const char *before);
void etcd_pages_free(struct etcd_pages *pages); /* NULL allowed */

/** etcd_pages_encode() - write the request of the next page into @body, which is emptied; -ENOMEM
 */
int etcd_pages_encode(const struct etcd_pages *pages, struct bytes *body) CHECK_RESULT;
/** etcd_pages_take() - take the answer's page with its memory. Return: 1: another page follows; 0:
 * that was the last one; -ENOMEM: the reply stays the caller's */
int etcd_pages_take(struct etcd_pages *pages, struct etcd_reply *reply) CHECK_RESULT;
/** etcd_pages_shrink() - an answer was too large: ask for fewer keys from now on; false: it was one
 * key */
bool etcd_pages_shrink(struct etcd_pages *pages);
/** etcd_pages_gather() - fill @ret_result with the entries of all pages, which stay with @pages;
 * -ENOMEM */
int etcd_pages_gather(struct etcd_pages *pages, struct kv_result *ret_result) CHECK_RESULT;
