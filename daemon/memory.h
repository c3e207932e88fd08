/*
 * Memory that costs only what is used of it.
 *
 * The state of a job has room for 64 slots, each with the record of a step: megabytes, of which a
 * node with one slot touches a few pages. As long as such blocks are mapped by themselves the pages
 * that nobody touches do not exist. But the C library raises the size from which it maps with every
 * such block that is freed, and from then on clears megabytes of its heap for each new one.
 */
#pragma once

/** memory_map_large() - once per process, at its start: blocks from 128 KiB on stay mapped */
void memory_map_large(void);
