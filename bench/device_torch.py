#!/usr/bin/env python3
"""Training steps of a GPT-2 in PyTorch on a GPU, as bench-device makes them:

    device_torch.py [--layers N --width N --heads N --context N --vocab N --batch N --rounds N]

bf16 with f32 parameters, torch.compile, flash attention, AdamW in its fused form, TF32 where products are of f32; one
micro-batch a step, table and head apart. Rows of the table are as many as a multiple of 64, which spares PyTorch the
odd vocabulary as our rows of logits spare us. Says the step beside the rate of the model's largest product, as
bench-device does. `--device cpu` only shows that it runs. Exit status 77 where PyTorch or a GPU is missing.
"""
import argparse
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("no PyTorch here")
    sys.exit(77)


ROWS_ALIGN = 64


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        width = options.width
        self.heads = options.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        shape = (batch, context, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        rows = -(-options.vocab // ROWS_ALIGN) * ROWS_ALIGN
        self.tokens = nn.Embedding(rows, options.width)
        self.positions = nn.Embedding(options.context, options.width)
        self.blocks = nn.Sequential(*(Block(options) for _ in range(options.layers)))
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, rows, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        logits = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(call, rounds):
    """The median of five groups of rounds after three calls to warm up."""
    for _ in range(3):
        call()
    groups = []
    for _ in range(5):
        wait()
        began = time.monotonic()
        for _ in range(rounds):
            call()
        wait()
        groups.append((time.monotonic() - began) / rounds)
    return statistics.median(groups)


def product_flops(options):
    rows, width = options.batch * options.context, options.width
    left = torch.randn(rows, width, device=options.device, dtype=torch.bfloat16)
    right = torch.randn(width, 4 * width, device=options.device, dtype=torch.bfloat16)
    return 8 * rows * width ** 2 / seconds_of(lambda: left @ right, options.rounds)


def step_flops(options):
    """Forward and backward, attention's half that is masked left out; as model/net/unit_cost.c counts."""
    rows, width = options.batch * options.context, options.width
    layer = 2 * rows * 12 * width ** 2 + 2 * rows * options.context * width
    return 3 * (options.layers * layer + 2 * rows * width * options.vocab)


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("layers", 12), ("width", 768), ("heads", 12), ("context", 1024), ("vocab", 50257),
                        ("batch", 8), ("rounds", 20)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        sys.exit(77)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    peak = product_flops(options)
    with torch.device(options.device):  # a host would draw 1.5B numbers for long
        model = Model(options)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(options.vocab, (options.batch, options.context), device=options.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, dtype=torch.bfloat16):
            loss = compiled(tokens, tokens)
        loss.backward()
        optimizer.step()
        return loss.item()

    seconds = seconds_of(step, max(1, options.rounds // 5))
    rows = options.batch * options.context
    print(f"PyTorch {torch.__version__}, torch.compile: step: {1e3 * seconds:.2f} ms, {rows / seconds:.0f} tokens/s, "
          f"{100 * step_flops(options) / seconds / peak:.1f} % of its product's rate ({peak / 1e12:.0f} TFLOP/s)")


main()
