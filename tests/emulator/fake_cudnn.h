/*
 * The controls of the stand-in for cuDNN. The stand-in keeps descriptors, answers the heuristic
 * with two engines, of which the first is not deterministic, and computes graphs operation by
 * operation, at once or at each replay of the capture that its stream is in.
 */
#pragma once

#include <stdbool.h>

enum fake_cudnn_manner {
    FAKE_CUDNN_SOUND,
    FAKE_CUDNN_GREEDY,     /* wants forty thousand times the workspace */
    FAKE_CUDNN_REFUSES,    /* finalizing a graph fails */
    FAKE_CUDNN_UNORDERED,  /* no engine is deterministic */
    FAKE_CUDNN_WRONG,      /* results are a quarter off */
    FAKE_CUDNN_OTHER_BITS, /* a little off, and each time otherwise */
    FAKE_CUDNN_SELDOM,     /* a little off in every sixth run of a plan */
    FAKE_CUDNN_LARGE,      /* the same for more than two samples alone */
    FAKE_CUDNN_NO_COMPILE, /* the last engine's kernel does not compile */
    FAKE_CUDNN_NO_MEMORY,  /* building a plan finds no memory of the device */
    FAKE_CUDNN_NO_DRIVER,  /* building a plan fails in the driver */
    FAKE_CUDNN_NO_DEVICE,  /* cudnnCreate() fails */
};

/* The functions of the emulator that the stand-in needs: emulator_reach_memory(),
 * emulator_take_call(). */
struct fake_cudnn_device {
    void (*reach)(bool open);
    void (*take)(void *stream, void (*call)(void *context), void *context,
                 void (*drop)(void *context));
};

/* The library's symbol "fake_cudnn_behave" */
typedef void (*fake_cudnn_behave_function)(enum fake_cudnn_manner manner,
                                           struct fake_cudnn_device device);

/* The library's symbol "fake_cudnn_runs": how many graphs ran so far. */
typedef unsigned (*fake_cudnn_runs_function)(void);
