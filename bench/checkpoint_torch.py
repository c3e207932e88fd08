#!/usr/bin/env python3
"""One checkpoint of GPT-2 124M with AdamW by PyTorch for each line on standard input:
checkpoint_torch.py FOLDER

The state is that of bench/checkpoint.c: parameters and both moments, f32, 1.5 GB, on the CPU, saved by
torch.distributed.checkpoint.async_save. Answers with the seconds until it is on disk and those until
the call returned, which training would have waited. The first line says the version. Ends at the end of
its input.
"""
import os
import shutil
import sys
import time

try:
    import torch
    import torch.distributed as distributed
    import torch.distributed.checkpoint as checkpoint
except ImportError:
    sys.exit("no PyTorch here")

LAYERS, WIDTH, CONTEXT, VOCAB = 12, 768, 64, 50257


def shapes():
    yield "wte", (VOCAB, WIDTH)
    yield "wpe", (CONTEXT, WIDTH)
    for layer in range(LAYERS):
        for name, shape in (("ln_1", (2, WIDTH)), ("qkv", (WIDTH, 3 * WIDTH)), ("qkv_bias", (3 * WIDTH,)),
                            ("out", (WIDTH, WIDTH)), ("out_bias", (WIDTH,)), ("ln_2", (2, WIDTH)),
                            ("up", (WIDTH, 4 * WIDTH)), ("up_bias", (4 * WIDTH,)),
                            ("down", (4 * WIDTH, WIDTH)), ("down_bias", (WIDTH,))):
            yield f"h.{layer}.{name}", shape
    yield "ln_f", (2, WIDTH)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
    state = {f"{role}.{name}": torch.randn(shape)
             for name, shape in shapes() for role in ("parameter", "first_moment", "second_moment")}
    print(f"PyTorch {torch.__version__}", flush=True)
    for number, _ in enumerate(sys.stdin):
        path = f"{folder}/{number}"
        began = time.monotonic()
        future = checkpoint.async_save(state, checkpoint_id=path)
        stalled = time.monotonic() - began
        future.result()
        print(f"{time.monotonic() - began:.6f} {stalled:.6f}", flush=True)
        shutil.rmtree(path)
    distributed.destroy_process_group()


main()
