#!/usr/bin/env python3
"""from_pretrained() of the family's model on a checkpoint and its exports, beside firn's logits.

usage: from_pretrained.py FOLDER CHECKPOINT, with tokens, logits, plain-f32 and plain-bf16 in FOLDER.
Exit status: 0 equal within 1e-4, 1 not equal, 77 when torch, numpy or transformers is not installed.
"""
import os
import sys

try:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import numpy
    import torch
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-4


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    # With tied tables lm_head.weight has no tensor of its own; transformers ties it.
    problems = {kind: found for kind, found in info.items() if found}
    assert not problems, problems
    return model.eval()


def main(folder, checkpoint):
    tokens = torch.from_numpy(numpy.fromfile(f"{folder}/tokens", numpy.int32)).long()[None]
    ours = torch.from_numpy(numpy.fromfile(f"{folder}/logits", numpy.float32))
    equal = True
    models = {}
    for name, path in (("checkpoint", checkpoint), ("export, f32", f"{folder}/plain-f32")):
        models[name] = load(path)
        theirs = models[name](tokens).logits.detach().flatten()
        difference = ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()
        print(f"{name}: logits differ by {difference:.2e} of at most {theirs.abs().max():.2f}")
        equal &= difference <= TOLERANCE

    whole = models["checkpoint"].state_dict()
    plain = models["export, f32"].state_dict()
    half = load(f"{folder}/plain-bf16").to(torch.bfloat16).state_dict()
    for key, tensor in whole.items():
        equal &= torch.equal(tensor, plain[key])
        if not torch.equal(tensor.to(torch.bfloat16), half[key]):
            print(f"{key} is not rounded as torch rounds")
            equal = False
    return 0 if equal else 1


sys.exit(main(sys.argv[1], sys.argv[2]))
