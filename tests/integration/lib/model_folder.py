"""A small GPT-2's folder as Hugging Face's tools write it, for the model of job.py."""
import glob
import json
import os
import random
import struct

LAYERS, WIDTH, CONTEXT, VOCAB = 4, 32, 32, 256


def tensors():
    yield "wte.weight", [VOCAB, WIDTH]
    yield "wpe.weight", [CONTEXT, WIDTH]
    for layer in range(LAYERS):
        for name, shape in (("ln_1.weight", [WIDTH]), ("ln_1.bias", [WIDTH]),
                            ("attn.c_attn.weight", [WIDTH, 3 * WIDTH]), ("attn.c_attn.bias", [3 * WIDTH]),
                            ("attn.c_proj.weight", [WIDTH, WIDTH]), ("attn.c_proj.bias", [WIDTH]),
                            ("ln_2.weight", [WIDTH]), ("ln_2.bias", [WIDTH]),
                            ("mlp.c_fc.weight", [WIDTH, 4 * WIDTH]), ("mlp.c_fc.bias", [4 * WIDTH]),
                            ("mlp.c_proj.weight", [4 * WIDTH, WIDTH]), ("mlp.c_proj.bias", [WIDTH])):
            yield f"h.{layer}.{name}", shape
    yield "ln_f.weight", [WIDTH]
    yield "ln_f.bias", [WIDTH]


def write_config(folder, **changes):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": LAYERS, "n_embd": WIDTH,
              "n_head": 2, "n_positions": CONTEXT, "n_ctx": CONTEXT, "vocab_size": VOCAB,
              "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True}
    with open(folder + "/config.json", "w", encoding="ascii") as file:
        json.dump({**config, **changes}, file)


def write(folder):
    """config.json and model.safetensors; returns the path of the latter."""
    draw, header, data = random.Random(1), {}, b""
    for name, shape in tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [0.02 * draw.gauss(0, 1) + (len(shape) == 1 and name.endswith("weight")) for _ in range(count)]
        begin, data = len(data), data + struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    write_config(folder)
    path = folder + "/model.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path


def read(folder):
    """The bytes of each tensor in a folder's model*.safetensors, by the names that write() gives them."""
    found = {}
    for path in glob.glob(folder + "/model*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        for name, entry in header.items():
            if name != "__metadata__":
                found[name.removeprefix("transformer.")] = data[slice(*entry["data_offsets"])]
    return found
