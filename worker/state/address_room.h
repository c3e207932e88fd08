/*
 * A range of addresses as large as the machine's memory. A process uses its first part, and can use
 * more later without moving the data or touching its pages again. Addresses cost nothing and
 * reserve no memory.
 */
#pragma once

#include <stddef.h>

#include "base/compiler.h"

struct address_room;

/** address_room_new() - reserve the range, unusable so far; NULL: no addresses left (RLIMIT_AS) */
struct address_room *address_room_new(void);
/** address_room_free() - release the range and its memory; NULL allowed */
void address_room_free(struct address_room *room);

/** address_room_memory() - return the beginning of the range, aligned to a huge page */
void *address_room_memory(const struct address_room *room);
size_t address_room_bytes(const struct address_room *room);

/** address_room_use() - make the first @size_bytes readable and writable; new bytes are zero
 *
 * Return: 0; -ENOMEM: the system does not commit more memory, and the range is unchanged */
int address_room_use(struct address_room *room, size_t size_bytes) CHECK_RESULT;
