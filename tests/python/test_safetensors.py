#!/usr/bin/env python3
"""Holds the reader and writer against the `safetensors` package.

usage: test_safetensors.py PROGRAM

PROGRAM is tests/python/safetensors_cat: `cat FILE` prints one line a tensor
(name, dtype, shape, data in hex) and `copy IN OUT` writes a file anew.  Exits
77, which means skipped, where the package is missing."""
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    print("skipped: no Python packages safetensors and numpy")
    sys.exit(77)

# All that numpy has.
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64",
         "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
         "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"}
NAMES = {numpy.dtype(kind): name for name, kind in TYPES.items()}


def draw(rng):
    tensors = {}
    for i in range(rng.randrange(12)):
        kind = numpy.dtype(TYPES[rng.choice(sorted(TYPES))])
        shape = [rng.randrange(5) for _ in range(rng.randrange(5))]
        count = int(numpy.prod(shape, dtype=int))
        if kind == bool:
            data = bytes(rng.randrange(2) for _ in range(count))
        else:
            data = rng.randbytes(count * kind.itemsize)
        name = rng.choice(["w", "h", "\u00e9\U0001f600", "a\"b\"\\"])
        tensors["%s.%d" % (name, i)] = numpy.frombuffer(
            data, dtype=kind).reshape(shape)
    return tensors


def lines(tensors):
    return sorted("%s %s %s %s" % (
        name, NAMES[t.dtype], ",".join(map(str, t.shape)), t.tobytes().hex())
        for name, t in tensors.items())


def main():
    program = sys.argv[1]
    rng = random.Random(20240601)
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = folder + "/theirs", folder + "/ours"
        for i in range(60):
            tensors = draw(rng)
            note = {"format": "pt", "n\u00e9": "\n\"%d\"" % i}
            save_file(tensors, theirs, note)
            want = lines(tensors)
            got = subprocess.run([program, "cat", theirs], check=True,
                                 stdout=subprocess.PIPE).stdout
            assert sorted(got.decode().splitlines()) == want, (got, want)
            subprocess.run([program, "copy", theirs, ours], check=True)
            assert lines(load_file(ours)) == want
            with safe_open(ours, "numpy") as file:
                assert file.metadata() == note
    print("60 files agree")


main()
