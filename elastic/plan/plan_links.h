/* The links of a generation: their key and protocol, and how long workers try to make them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PLAN_KEY_HEX_SIZE 65
#define PLAN_KEY_SIZE     32
#define PLAN_LINKS_MAX    255 /* one byte of every frame */

struct plan_links {
    char key[PLAN_KEY_HEX_SIZE]; /* 32 random bytes in hexadecimal */
    unsigned protocol;           /* link protocol of the workers; 0: unknown */
    /* A netsplit separates nodes of the plan, and the job needs all of them
     * (elastic/leader/leader_netsplit.h). Silent hosts get the same deadline as all others, because
     * the netsplit may heal. */
    bool patient;
};

/** plan_key_bytes() - decode a plan's link key to bytes; false when malformed */
bool plan_key_bytes(const char *key, uint8_t ret_key[PLAN_KEY_SIZE]);
