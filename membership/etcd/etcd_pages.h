/*
 * Read a range page by page: the size of an answer is limited, the size of a cluster's keys is not;
 * the reports of thousands of workers are hundreds of megabytes. All pages are read at the revision
 * of the first page. A page that is too large is requested again with a quarter of the keys.
 */
#pragma once

#include <stdbool.h>

#include "membership/etcd/etcd_codec.h"

struct etcd_pages;

/** etcd_pages_new() - begin to read the keys below @prefix and, unless NULL, before @before; both
 * are copied. Return: NULL: no memory */
struct etcd_pages *etcd_pages_new(const char *prefix, const char *before);
void etcd_pages_free(struct etcd_pages *pages); /* NULL allowed */

/** etcd_pages_encode() - replace @body by the request for the next page. Return: 0; -ENOMEM */
int etcd_pages_encode(const struct etcd_pages *pages, struct bytes *body) CHECK_RESULT;
/** etcd_pages_take() - take the answer's page with its memory. Return: 1: another page follows; 0:
 * that was the last page; -ENOMEM: the caller still owns the reply */
int etcd_pages_take(struct etcd_pages *pages, struct etcd_reply *reply) CHECK_RESULT;
/** etcd_pages_shrink() - request fewer keys from now on, because an answer was too large. Return:
 * false: it was for a single key */
bool etcd_pages_shrink(struct etcd_pages *pages);
/** etcd_pages_gather() - fill @ret_result with the entries of all pages, which @pages still owns.
 * Return: 0; -ENOMEM */
int etcd_pages_gather(struct etcd_pages *pages, struct kv_result *ret_result) CHECK_RESULT;
