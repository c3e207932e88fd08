/* `firn-worker sample`: text from a checkpoint, on one CPU slot. */
#pragma once

/** sample_main() - argv[0] is "sample"; returns the process's exit code (0 done, 1 failed, 2 usage)
 */
int sample_main(int argc, char **argv);
