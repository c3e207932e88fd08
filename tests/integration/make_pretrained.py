#!/usr/bin/env python3
"""Folders of small models as transformers writes them, with logits, for test_pretrained.

usage: make_pretrained.py FOLDER: makes FOLDER/NAME and FOLDER/NAME.logits for each of MODELS, and FOLDER/tokens.
Parameters are far larger than at initialization, so that positions and attention matter. Exit status: 0, or 77 when
torch, numpy or transformers is not installed.
"""
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

CONTEXT, VOCAB = 16, 256
COMMON = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.2}
LLAMA = {"max_position_embeddings": 2048, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 50, "rope_theta": 500.0, "rms_norm_eps": 1e-3,
         "tie_word_embeddings": False}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
MODELS = {  # by name: the kind and what its configuration says
    "gpt2": ("gpt2", {"n_positions": CONTEXT, "n_embd": 32, "n_layer": 3, "n_head": 2}),
    "llama": ("llama", LLAMA),
    "llama3": ("llama", LLAMA | {"rope_scaling": LLAMA3}),
    "mistral": ("mistral", LLAMA | {"sliding_window": CONTEXT}),
    "qwen2": ("qwen2", {key: value for key, value in LLAMA.items() if key != "head_dim"}),
    "qwen3": ("qwen3", LLAMA),
}


def main(folder):
    torch.manual_seed(1)
    tokens = torch.randint(0, VOCAB, (1, CONTEXT))
    numpy.array(tokens, numpy.int32).tofile(f"{folder}/tokens")
    for name, (kind, sizes) in MODELS.items():
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **COMMON, **sizes))
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms begin with 1, biases with 0
                parameter.data += torch.randn_like(parameter) / 4
        model.to(torch.bfloat16).save_pretrained(f"{folder}/{name}",
                                                 max_shard_size="20KB" if name == "llama" else "5GB")
        # Opened again: what is no parameter, such as the frequencies of positions, must not be in bf16.
        model = AutoModelForCausalLM.from_pretrained(f"{folder}/{name}", dtype=torch.float32).eval()
        logits = model(tokens).logits.detach().numpy()
        logits.astype(numpy.float32).tofile(f"{folder}/{name}.logits")


main(sys.argv[1])
