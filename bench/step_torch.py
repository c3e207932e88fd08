#!/usr/bin/env python3
"""One training step of GPT-2 124M in PyTorch for each line on standard input: step_torch.py THREADS

Shapes, data type and optimizer are those of bench/step.c: batch 4 x 64 tokens, f32, tied table,
clipping by the global norm, AdamW in its fused form. Answers with the seconds of each step; the first
line says the version. Ends at the end of its input.
"""
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("no PyTorch here")

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, BATCH = 12, 768, 12, 64, 50257, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shape = (BATCH, CONTEXT, HEADS, WIDTH // HEADS)
        q, k, v = (part.view(shape).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(WIDTH, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        logits = functional.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(VOCAB, (BATCH, CONTEXT))
    targets = torch.randint(VOCAB, (BATCH, CONTEXT))

    print("PyTorch", torch.__version__, flush=True)
    for _ in sys.stdin:
        began = time.monotonic()
        optimizer.zero_grad(set_to_none=False)
        loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        print(time.monotonic() - began, flush=True)


main()
