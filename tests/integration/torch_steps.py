#!/usr/bin/env python3
"""The same training steps of a GPT-2 in PyTorch, beside firn's, for test_torch_steps.

usage: torch_steps.py make FOLDER LAYERS WIDTH HEADS CONTEXT VOCAB SAMPLES
           FOLDER/model as transformers saves it, and FOLDER/tokens.bin with so many samples: one step's
       torch_steps.py compare FOLDER PRECISION METRICS AFTER
           PRECISION of f32, tf32, bf16; METRICS: firn's lines; AFTER: the exported model of the last step
Exit status: 0 equal up to rounding, 1 not, 77 when torch, numpy or transformers is not installed.

A step sees all samples, so their order, which is firn's own, changes nothing but rounding. What rounding may do is
PyTorch's to say: f32 is held to a constant, the others to twice what PyTorch's own steps of that precision are off.
"""
import json
import os
import sys

try:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import numpy
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, logging
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

F32 = {"loss": 5e-6, "gradient norm": 1e-4, "parameters": 1e-3}  # of the value; of the way that they have gone
OTHER_LEAST = {"loss": 1e-3, "gradient norm": 1e-2, "parameters": 5e-2}
BETAS, EPSILON, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0  # as test_torch_steps has them


def make(folder, layers, width, heads, context, vocab, samples):
    torch.manual_seed(1)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=heads, n_positions=context, vocab_size=vocab,
                        bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder + "/model")
    # Some tokens are far more frequent than others, as in any text: there is something to learn.
    tokens = numpy.random.default_rng(2).integers(0, vocab, samples * context + 1) ** 2 // vocab
    tokens.astype(numpy.uint16).tofile(folder + "/tokens.bin")
    return 0


class Steps:
    """What PyTorch computes in a precision: a loss and a norm each step, and the parameters after them."""

    def __init__(self, folder, precision, rates):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        self.model = AutoModelForCausalLM.from_pretrained(folder + "/model", dtype=torch.float32).to(device)
        self.values = {"loss": [], "gradient norm": []}
        context = self.model.config.n_positions
        tokens = torch.from_numpy(numpy.fromfile(folder + "/tokens.bin", numpy.uint16).astype(numpy.int64)).to(device)
        inputs, targets = tokens[:-1].view(-1, context), tokens[1:].view(-1, context)
        matrices = [parameter for parameter in self.model.parameters() if parameter.dim() == 2]
        others = [parameter for parameter in self.model.parameters() if parameter.dim() != 2]
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY},
                                       {"params": others, "weight_decay": 0.0}], betas=BETAS, eps=EPSILON)
        for rate in rates:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
                logits = self.model(inputs).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            optimizer.step()
            self.values["loss"].append(loss.item())
            self.values["gradient norm"].append(norm.item())

    def parameters(self):
        return {name: tensor.detach().cpu() for name, tensor in self.model.named_parameters()}


def farthest(values, reference):
    """The largest difference of two lists, of the reference's value."""
    return max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(values, reference))


def way_off(before, after, reference):
    """How far apart two runs have ended, of the way that the reference has gone."""
    apart = sum((after[name] - tensor).double().square().sum() for name, tensor in reference.items())
    gone = sum((before[name] - tensor).double().square().sum() for name, tensor in reference.items())
    return (apart / gone).sqrt().item()


def load(folder):
    return dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).named_parameters())


def compare(folder, precision, metrics, after):
    with open(metrics, encoding="ascii") as file:
        lines = [json.loads(line) for line in file]
    ours = {"loss": [line["loss"] for line in lines], "gradient norm": [line["grad_norm"] for line in lines]}
    rates, before, theirs = [line["lr"] for line in lines], load(folder + "/model"), load(after)
    exact = Steps(folder, "f32", rates)
    same = exact if precision == "f32" else Steps(folder, precision, rates)
    equal = True
    for what in F32:
        if what == "parameters":
            off, rounding = (way_off(before, parameters, exact.parameters())
                             for parameters in (theirs, same.parameters()))
        else:
            off, rounding = (farthest(values, exact.values[what]) for values in (ours[what], same.values[what]))
        limit = F32[what] if precision == "f32" else max(2 * rounding, OTHER_LEAST[what])
        equal &= off <= limit
        print(f"{precision}, {len(lines)} steps: {what} at most {off:.1e} from PyTorch's in f32 "
              f"(PyTorch's own: {rounding:.1e}; limit {limit:.1e}){'' if off <= limit else ' WRONG'}")
    if not equal:
        for step, values in enumerate(zip(*ours.values(), *exact.values.values(), *same.values.values()), 1):
            print(f"step {step}: ours {values[0]:.6f} {values[1]:.6f}, f32 {values[2]:.6f} {values[3]:.6f}, "
                  f"{precision} {values[4]:.6f} {values[5]:.6f}")
        for name, tensor in sorted(exact.parameters().items(), key=lambda entry: -way_off(
                before, theirs, {entry[0]: entry[1]}))[:5]:
            print(f"{name}: {way_off(before, theirs, {name: tensor}):.1e} of its way")
    return 0 if equal else 1


if __name__ == "__main__":
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    ACTION, WHERE, *MORE = sys.argv[1:]
    sys.exit(make(WHERE, *map(int, MORE)) if ACTION == "make" else compare(WHERE, *MORE))
