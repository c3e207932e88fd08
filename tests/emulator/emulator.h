/* What a test can ask of the emulator (cuda_runtime.h). */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** emulator_devices() - how many devices there are from now on (1 at first) */
void emulator_devices(int count);
/** emulator_fail() - whether launches fail from now on */
void emulator_fail(bool failing);
/** emulator_knows_products() - whether cuBLASLt's heuristic finds anything from now on */
void emulator_knows_products(bool known);

#ifdef __cplusplus
}
#endif
