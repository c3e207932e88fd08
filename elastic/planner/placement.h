/*
 * Which slot gets which rank once the numbers of stages and replicas are known. Private to the
 * planner.
 */
#pragma once

#include "elastic/planner/planner.h"

struct placement_request {
    unsigned stage_count, replica_count;
    const unsigned *stage_first_unit; /* stage_count + 1 */
    double speed_min;                 /* slower slots are not used */
    size_t memory_bytes_min;          /* nor those with less memory; 0: any */
};

/**
 * placement_assign() - an index into input->slots for every rank
 * @ret_slots: stage_count * replica_count entries; at least as many slots must satisfy the request
 *
 * First every node takes as many whole replicas as fit, nodes that hold most first; what is left
 * over makes up the replicas that span nodes. Among the slots of one such group whoever holds most
 * bytes of a stage gets it, greedily; ties: the earlier slot, then the earlier stage.
 * Return: 0 or -ENOMEM.
 */
int placement_assign(const struct planner_input *input, const struct placement_request *request,
                     unsigned *ret_slots) CHECK_RESULT;
