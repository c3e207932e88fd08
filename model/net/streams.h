/* The Philox streams of a seed for the random decisions of this folder. */
#pragma once

enum model_stream {
    MODEL_STREAM_INITIALIZE = 1, /* counter high: unit << 32 | tensor */
    MODEL_STREAM_SHUFFLE = 2,    /* counter low: epoch; the block is the epoch's key */
    MODEL_STREAM_SAMPLE = 3,     /* counter low: position of the generated token */
};
