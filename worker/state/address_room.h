/*
 * Addresses for as much memory as the machine has, of which a process uses the first part: it can
 * use more later without moving what it has there, nor touching its pages again. Addresses alone
 * cost nothing and no memory is promised for them.
 */
#pragma once

#include <stddef.h>

#include "base/compiler.h"

struct address_room;

/** address_room_new() - none of it is usable yet; NULL: there are no addresses (RLIMIT_AS) */
struct address_room *address_room_new(void);
/** address_room_free() - with what lies in it; NULL allowed */
void address_room_free(struct address_room *room);

/** address_room_memory() - where it begins: at a huge page */
void *address_room_memory(const struct address_room *room);
size_t address_room_bytes(const struct address_room *room);

/** address_room_use() - its first @size_bytes may be read and written; what was not before reads as
 * zeros. 0; -ENOMEM: the system promises no more, and it is as before */
int address_room_use(struct address_room *room, size_t size_bytes) CHECK_RESULT;
