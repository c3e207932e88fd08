/*
 * Memory that costs only what is used of it, and is gone when it is given back.
 *
 * The C library raises the size from which it maps a block by itself with every such block that is
 * freed, and from then on takes larger ones from its heap. There they are cleared even where nobody
 * touches them: firnd's state of a job has room for 64 slots, each with the record of a step, of
 * which a node with one slot touches a few pages. And what is freed between blocks that stay does
 * not go back to the system: in a worker, hundreds of megabytes of units that another one has taken
 * over.
 */
#pragma once

#include <stddef.h>

/** mapped_blocks_from() - once per process, at its start: blocks of @size_bytes or more (32 MiB at
 * most) stay mapped by themselves */
void mapped_blocks_from(size_t size_bytes);
