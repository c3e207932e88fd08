/*
 * Keep large allocations in mappings of their own, so that untouched pages cost nothing and freed
 * memory returns to the system.
 *
 * The C library raises its mapping threshold whenever a mapped block is freed, and then takes
 * blocks up to that size from its heap. Zeroed heap blocks are cleared even where they are not
 * used: firnd's state of a job has room for 64 slots, each with the record of a step, and a node
 * with one slot uses a few pages of it. Heap memory that is freed between used blocks does not
 * return to the system: in a worker, hundreds of megabytes of units that moved to another worker.
 */
#pragma once

#include <stddef.h>

/**
 * mapped_blocks_from() - map blocks of @size_bytes or more (at most 32 MiB) separately; call once
 * per process, at its start
 */
void mapped_blocks_from(size_t size_bytes);
