#include "checkpoint/read/load_plan.h"

#include <errno.h>
#include <stdlib.h>

/* Limit on the bytes added by rounding to whole blocks: a thirty-second keeps a restore well
 * below 1.05 bytes read per byte wanted. */
#define ROUNDING_SHARE 32
#define BLOCK          ((uint64_t)4096)

static int compare_tensors(const void *left, const void *right)
{
    const struct load_tensor *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->tensor->offset > b->tensor->offset) - (a->tensor->offset < b->tensor->offset);
}

static int compare_jobs(const void *left, const void *right)
{
    const struct load_job *a = left, *b = right;
    uint64_t a_size = a->end - a->begin, b_size = b->end - b->begin;
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static void select_tensors(const struct checkpoint_reader *reader,
                           const struct checkpoint_wish *wishes, unsigned count,
                           struct load_plan *plan)
{
    for (unsigned i = 0; i < count; i++) {
        const struct manifest_tensor *tensor =
            reader_find_tensor(reader, wishes[i].name, wishes[i].role);
        if (!tensor || tensor->size_bytes == 0 ||
            tensor->size_bytes / sizeof(float) != wishes[i].count)
            continue;
        const struct reader_file *file = reader_find_file(reader, tensor->file);
        if (file->descriptor < 0) /* on other nodes: checkpoint_read() reads it */
            continue;
        plan->tensors[plan->tensor_count++] =
            (struct load_tensor){.tensor = tensor, .file = file, .wish = i};
    }
    if (plan->tensor_count > 1)
        qsort(plan->tensors, plan->tensor_count, sizeof(*plan->tensors), compare_tensors);
}

static bool continues(const struct load_job *job, const struct load_tensor *tensor)
{
    return job->file == tensor->file && job->end == tensor->tensor->offset &&
           job->end - job->begin < LOAD_JOB_BYTES;
}

static void cut_jobs(struct load_plan *plan)
{
    struct load_job *job = NULL;
    for (unsigned i = 0; i < plan->tensor_count; i++) {
        const struct load_tensor *tensor = &plan->tensors[i];
        if (!job || !continues(job, tensor)) {
            job = &plan->jobs[plan->job_count++];
            *job = (struct load_job){.file = tensor->file,
                                     .first = i,
                                     .begin = tensor->tensor->offset,
                                     .end = tensor->tensor->offset};
        }
        job->count++;
        job->end += tensor->tensor->size_bytes;
    }
}

static void choose_direct(struct load_job *job)
{
    uint64_t rounded = (job->end + BLOCK - 1) / BLOCK * BLOCK - job->begin / BLOCK * BLOCK;
    uint64_t size = job->end - job->begin;
    job->direct = rounded - size <= size / ROUNDING_SHARE;
}

int load_plan_make(const struct checkpoint_reader *reader, const struct checkpoint_wish *wishes,
                   unsigned count, struct load_plan *ret_plan)
{
    struct load_plan plan = {.tensors = calloc(count + 1, sizeof(*plan.tensors)),
                             .jobs = calloc(count + 1, sizeof(*plan.jobs))};
    if (!plan.tensors || !plan.jobs) {
        load_plan_done(&plan);
        return -ENOMEM;
    }
    select_tensors(reader, wishes, count, &plan);
    cut_jobs(&plan);
    for (unsigned i = 0; i < plan.job_count; i++)
        choose_direct(&plan.jobs[i]);
    if (plan.job_count > 1)
        qsort(plan.jobs, plan.job_count, sizeof(*plan.jobs), compare_jobs);
    *ret_plan = plan;
    return 0;
}

void load_plan_done(struct load_plan *plan)
{
    free(plan->tensors);
    free(plan->jobs);
    *plan = (struct load_plan){0};
}
