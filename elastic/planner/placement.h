/*
 * Assign ranks to slots once the numbers of stages and replicas are known. Private to the planner.
 */
#pragma once

#include "elastic/planner/planner.h"

struct placement_request {
    unsigned stage_count, replica_count;
    const unsigned *stage_first_unit; /* stage_count + 1 */
    double speed_min;                 /* slower slots are not used */
    size_t memory_bytes_min;          /* slots with less memory are not used; 0: any */
};

/**
 * placement_assign() - choose an index into input->slots for every rank
 * @ret_slots: stage_count * replica_count entries; at least as many slots must satisfy the request
 *
 * First every node takes as many whole replicas as fit, in order of the state bytes that the nodes
 * hold, the most first. The remaining slots form the replicas that span nodes. Within one such
 * group a stage goes to the slot that holds most bytes of it, greedily. Ties go to the earlier
 * slot, then to the earlier stage.
 * Return: 0 or -ENOMEM.
 */
int placement_assign(const struct planner_input *input, const struct placement_request *request,
                     unsigned *ret_slots) CHECK_RESULT;
