/* Print a plan: the layers of each stage, and the slots that compute it. */
#pragma once

#include "base/bytes.h"
#include "ctl/cluster/cluster.h"
#include "elastic/plan/plan_words.h"

/** layout_append() - append a line for each stage: "stage 0  embedding, layers 0-1  a/0 a/1  shadow
 * b/0 frozen"
 * @indent: blanks before each line
 * Return: 0 or -ENOMEM */
int layout_append(const struct plan *plan, unsigned frozen_layers, unsigned indent,
                  struct bytes *into) CHECK_RESULT;
/** layout_waits_append() - append "generation 5: 3 stages x 2 replicas, until generation 6 begins"
 * if such a change waits (cluster_job_change_waits()) and the progress knows the layout that
 * trains, which a restarted firnd does not; else nothing
 * @head: the text before it, which ends with the number */
int layout_waits_append(const struct cluster_job *job, const char *head,
                        struct bytes *into) CHECK_RESULT;
/** layout_words() - format "3 stages x 2 replicas", or "nothing runs" for an empty plan */
const char *layout_words(const struct plan *plan, char text[LAYOUT_WORDS_SIZE]);
