/*
 * Ports for tests that run beside each other: blocks below the range of outgoing connections. Each
 * block is locked by one process while the process runs (ports.py takes blocks in the same way),
 * and tried before it is handed out, because other programs know nothing of these locks.
 */
#pragma once

#include "base/compiler.h"

#define PORT_BLOCK 64

/**
 * port_block_take() - Reserve PORT_BLOCK adjacent ports of 127.0.0.1 that no other test uses
 * @ret_lock: a descriptor; closing it gives the block back
 *
 * Return: the first port; -EADDRINUSE: no block is free
 */
int port_block_take(int *ret_lock) CHECK_RESULT;
