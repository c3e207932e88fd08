#!/usr/bin/env python3
"""Hugging Face's model of a family on parameters, tokens and targets that test_reference wrote.

Compares logits, loss and all gradients with firn's. Exit status: 0 equal within 1e-4, 1 not equal,
77 when torch, numpy or transformers is not installed.
"""
import json
import os
import sys

try:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import numpy
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-4


def read(folder, name, dtype, shape):
    return torch.from_numpy(numpy.fromfile(os.path.join(folder, name), dtype).reshape(shape))


def compare(what, ours, theirs):
    """The largest difference, relative to the largest element where that is above 1."""
    difference = ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()
    print(f"{what}: {difference:.2e}")
    return difference <= TOLERANCE


def main(folder):
    with open(os.path.join(folder, "model.json")) as file:
        spec = json.load(file)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(spec["model_type"], tie_word_embeddings=False, **spec["config"]))

    tensors = {name: read(folder, name + ".parameter", numpy.float32, shape)
               for name, shape in spec["tensors"].items()}
    theirs = dict(model.named_parameters())
    if set(tensors) != set(theirs):
        print("names differ:", sorted(set(tensors) ^ set(theirs)))
        return 1
    model.load_state_dict(tensors, strict=True)

    batch = (spec["batch"], spec["context"])
    tokens = read(folder, "tokens", numpy.int32, batch).long()
    targets = read(folder, "targets", numpy.int32, batch).long()
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    loss.backward()

    equal = compare("logits", read(folder, "logits", numpy.float32, (*batch, model.config.vocab_size)), logits)
    equal &= compare("loss", torch.tensor(spec["loss"]), loss)
    for name, shape in spec["tensors"].items():
        ours = read(folder, name + ".gradient", numpy.float32, shape)
        equal &= compare(f"gradient of {name}", ours, theirs[name].grad)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
