"""Reads a checkpoint as docs/CHECKPOINT_FORMAT.md describes it, and by nothing else: no code of firn's.

check(FOLDER) raises Wrong at the first byte that the document does not explain. XXH3 comes from the
system's libxxhash; CRC32C is computed here, from its polynomial.
"""
import ctypes
import ctypes.util
import hashlib
import json
import os
import re
import struct
import sys

CHUNK = 4194304
BLOCK = 4096
ROLES = ("parameter", "first_moment", "second_moment")
BESIDE = {"manifest.json", "pinned", "verified", "placed"}  # what the manifest does not list
NAMES = (r"model-\d{5}-of-\d{5}\.safetensors", r"model-frozen-\d{5}\.safetensors",
         r"optimizer-\d{5}-of-\d{5}\.safetensors", r"model\.safetensors\.index\.json", r"config\.json",
         r"metrics(-\d{10,})?\.jsonl")
MANIFEST_KEYS = ("format", "version", "job", "step", "generation", "chunk_bytes", "state_digest", "spec", "state",
                 "files", "tensors", "checksum")


class Wrong(Exception):
    """Something in the folder is not as the document says."""


def demand(condition, *words):
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


# ---- checksums ----

class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data):
    """(low word, high word)"""
    function = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0").XXH3_128bits
    function.restype, function.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]
    value = function(bytes(data), len(data))
    return value.low, value.high


def digits(words):
    """32 digits, high word first."""
    return f"{words[1]:016x}{words[0]:016x}"


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)  # Castagnoli, reflected
        table.append(value)
    return table


def crc32c(data, table=crc_table()):  # pylint: disable=dangerous-default-value
    crc = 0xffffffff
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


# ---- files ----

def content(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def parse(text, name):
    def refuse_twice(pairs):
        demand(len({key for key, _ in pairs}) == len(pairs), name, "has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=refuse_twice)


def read_manifest(folder):
    data = content(folder, "manifest.json")
    demand(data.count(b"\n") == 1, "manifest.json is not one line and a line feed")
    end = re.search(rb',"checksum":"([0-9a-f]{32})"}\n\Z', data)
    demand(end, "manifest.json does not end with its checksum")
    demand(digits(xxh3_128(data[:end.start()])) == end[1].decode(), "manifest.json has another checksum")
    manifest = parse(data, "manifest.json")
    demand(set(manifest) == set(MANIFEST_KEYS), "manifest.json has the members", sorted(manifest))
    demand(list(manifest)[-1] == "checksum", "the checksum is not the last member")
    demand((manifest["format"], manifest["version"], manifest["chunk_bytes"]) == ("firn-checkpoint", 1, CHUNK),
           "manifest.json is of another format")
    return manifest


def check_file(folder, entry, files):
    name = entry["name"]
    demand(re.fullmatch("[A-Za-z0-9_-][A-Za-z0-9._-]*", name), name, "is no file's name")
    demand(name not in files, name, "is listed twice")
    data = content(folder, name)
    demand(len(data) == entry["size_bytes"], name, "has another size")
    sums = [f"{crc32c(data[at:at + CHUNK]):08x}" for at in range(0, len(data), CHUNK)]
    demand(entry["crc32c"] == sums, name, "has other checksums")
    demand(set(entry) <= {"name", "size_bytes", "crc32c", "nodes"}, name, "has the members", sorted(entry))
    files[name] = data


def check_safetensors(name, data):
    """Tensor's name -> (offset in the file, size)."""
    length, = struct.unpack_from("<Q", data)
    start = 8 + length
    demand(start % BLOCK == 0 and start <= len(data), name, "has a header of", length, "bytes")
    text = data[8:start].rstrip(b" ")
    header = parse(text, name)
    demand(text.endswith(b"}") and header.pop("__metadata__") == {"format": "pt"}, name, "has other metadata")
    places, expected, odd_seen = {}, 0, False
    for tensor, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        size = 4
        for length in entry["shape"]:
            size *= length
        demand(entry["dtype"] == "F32" and end - begin == size, name, tensor, "has another size than its shape")
        demand(begin == expected, name, tensor, "leaves a hole, or overlaps")
        demand(not odd_seen or size % BLOCK, name, tensor, "of whole blocks is behind one that is not")
        odd_seen = odd_seen or size % BLOCK != 0
        places[tensor], expected = (start + begin, size), end
    demand(start + expected == len(data), name, "goes on behind its tensors")
    return places


# ---- the whole ----

def check_tensors(manifest, files):
    """Each tensor is where the manifest and its file's header say, and no other is there."""
    places = {name: check_safetensors(name, data) for name, data in files.items() if name.endswith(".safetensors")}
    for order, tensor in enumerate(manifest["tensors"]):
        name, file = tensor["name"], tensor["file"]
        inside = name if tensor["role"] == "parameter" else f"{name}.{tensor['role']}"
        demand(tensor["order"] == order and tensor["role"] in ROLES, name, "is out of order")
        demand(file.startswith("model-" if tensor["role"] == "parameter" else "optimizer-"), name, "lies in", file)
        offset, size = places[file].pop(inside, (None, None))
        demand((offset, size) == (tensor["offset"], tensor["size_bytes"]), name, "lies elsewhere in", file)
        demand(digits(xxh3_128(files[file][offset:offset + size])) == tensor["xxh3_128"], name, "has another hash")
    demand(not any(places.values()), "tensors that the manifest does not list:", places)


def state_digest(manifest):
    data = b""
    for tensor in manifest["tensors"]:
        value = int(tensor["xxh3_128"], 16)
        data += tensor["name"].encode() + b"\0" + bytes([ROLES.index(tensor["role"])])
        data += struct.pack("<QQ", value & (1 << 64) - 1, value >> 64)
    if "freeze" in manifest["state"]:
        data += json.dumps(manifest["state"]["freeze"], sort_keys=True, separators=(",", ":")).encode()
    return digits(xxh3_128(data))


def check_index(manifest, files):
    parameters = [tensor for tensor in manifest["tensors"] if tensor["role"] == "parameter"]
    demand(parse(files["model.safetensors.index.json"], "the index") == {
        "metadata": {"total_size": sum(tensor["size_bytes"] for tensor in parameters)},
        "weight_map": {tensor["name"]: tensor["file"] for tensor in parameters}}, "the index says otherwise")


def check(folder):
    """The manifest of a good checkpoint; raises Wrong, or what open() and json raise."""
    manifest, files = read_manifest(folder), {}
    for entry in manifest["files"]:
        check_file(folder, entry, files)
    demand(set(os.listdir(folder)) - BESIDE == set(files), "files that the manifest does not list:",
           set(os.listdir(folder)) - BESIDE - set(files))
    check_tensors(manifest, files)
    demand(state_digest(manifest) == manifest["state_digest"], "the state has another digest")
    check_index(manifest, files)
    config = parse(files["config.json"], "config.json")
    demand("model_type" in config, "config.json says no model_type")
    for name, data in files.items():  # others come from the folder of model.from
        known = any(re.fullmatch(pattern, name) for pattern in NAMES)
        demand(known or "_name_or_path" in config and len(data) <= 32 << 20, name, "is no name of the document")
    lines = b"".join(files[name] for name in sorted(files) if re.fullmatch(r"metrics(-\d+)?\.jsonl", name))
    steps = [json.loads(line)["step"] for line in lines.splitlines()]
    demand(steps == sorted(set(steps)), "metrics are out of order")
    demand(not steps or steps[-1] == manifest["step"], "metrics go to step", steps[-1:])
    for name in ("pinned", "verified"):
        path = os.path.join(folder, name)
        demand(not os.path.exists(path) or os.path.getsize(path) == 0, name, "is not empty")
    if os.path.exists(os.path.join(folder, "placed")):
        sha256 = hashlib.sha256(content(folder, "manifest.json")).hexdigest()
        demand(parse(content(folder, "placed"), "placed") ==
               {"manifest_sha256": sha256, "state_digest": manifest["state_digest"]}, "placed is of another manifest")
    return manifest


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument, "is good: step", check(argument)["step"])
