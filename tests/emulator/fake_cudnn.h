/*
 * What a test can ask of the stand-in for cuDNN. It keeps descriptors, answers the heuristic with
 * two engines, of which the first is not deterministic, and computes graphs operation by operation.
 */
#pragma once

#include <stdbool.h>

enum fake_cudnn_manner {
    FAKE_CUDNN_SOUND,
    FAKE_CUDNN_GREEDY,     /* wants forty thousand times the workspace */
    FAKE_CUDNN_REFUSES,    /* finalizing a graph fails */
    FAKE_CUDNN_UNORDERED,  /* no engine is deterministic */
    FAKE_CUDNN_WRONG,      /* results are a quarter off */
    FAKE_CUDNN_OTHER_BITS, /* a little off, and each time more */
    FAKE_CUDNN_NO_DEVICE,  /* cudnnCreate() fails */
};

/* The library's symbol "fake_cudnn_behave": @reach opens and closes the device's memory. */
typedef void (*fake_cudnn_behave_function)(enum fake_cudnn_manner manner, void (*reach)(bool open));

/* The library's symbol "fake_cudnn_runs": how many graphs ran so far. */
typedef unsigned (*fake_cudnn_runs_function)(void);
