/* The controls of the emulator (cuda_runtime.h) for tests. */
#pragma once

#include <stdbool.h>

/* Under the address sanitizer each jump between coroutines clears the shadow of a whole stack:
   tests with many barriers would take minutes, and are left out there. */
#ifdef __SANITIZE_ADDRESS__
#define EMULATOR_JUMPS_ARE_SLOW 1
#else
#define EMULATOR_JUMPS_ARE_SLOW 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** emulator_devices() - how many devices there are from now on (1 at first) */
void emulator_devices(int count);
/** emulator_fail() - whether launches fail from now on */
void emulator_fail(bool failing);
/** emulator_allocations() - so many times memory was taken: of the device, and pinned */
unsigned emulator_allocations(void);
/** emulator_captures_fail() - whether graphs cannot be captured from now on */
void emulator_captures_fail(bool failing);
/** emulator_carries_out() - Set whether launches are carried out from now on; otherwise they are
 * only checked, as a device checks a launch before it begins: used for the sizes of real models */
void emulator_carries_out(bool carrying);
/** emulator_replays() - so many times a graph was launched */
unsigned emulator_replays(void);
/** emulator_kernels() - so many different kernels were launched, or captured */
unsigned emulator_kernels(void);
/** emulator_stream_priority() - the priority of a cudaStream_t, lower numbers first */
int emulator_stream_priority(void *stream);
/** emulator_knows_products() - whether cuBLASLt's heuristic finds anything from now on */
void emulator_knows_products(bool known);
/** emulator_heuristic_fails() - whether asking cuBLASLt's heuristic fails from now on */
void emulator_heuristic_fails(bool failing);

/** emulator_reach_memory() - Open the device's memory for a stand-in of one of its libraries, or
 * close it again */
void emulator_reach_memory(bool open);
/**
 * emulator_take_call() - Queue a stand-in's @call: it is made with @context in its place on
 * @stream, or at each replay of the capture that it is in; @drop is called when @context is no
 * longer needed
 */
void emulator_take_call(void *stream, void (*call)(void *context), void *context,
                        void (*drop)(void *context));

#ifdef __cplusplus
}
#endif
