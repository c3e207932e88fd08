/* This node: its record and slots, its registration, and its part in the election. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "membership/kv/election.h"
#include "membership/kv/records.h"
#include "membership/kv/registry.h"

struct inventory;
struct slot_service;

struct daemon_node {
    struct node_record self;
    uint64_t incarnation;
    bool registered;
    struct registry *registry;
    struct election *election;
    struct inventory *inventory;
    struct slot_service *slot_service;
};

/** daemon_node_publish() - publish the node's record after a change (a bad slot, draining) */
void daemon_node_publish(struct daemon_node *node);
