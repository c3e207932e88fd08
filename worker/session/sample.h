/* `firn-worker sample`: generate text from a checkpoint, on one CPU slot. */
#pragma once

/** sample_main() - run the command; argv[0] is "sample"; returns the exit code (0 done, 1 failed, 2
 * usage) */
int sample_main(int argc, char **argv);
