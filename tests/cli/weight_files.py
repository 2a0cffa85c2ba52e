"""Small GGUF, safetensors and .npy files, written and read with the standard library alone.

Apart from the tests: an independent reading of the formats, so that the command is not compared with itself.
"""
import ast
import json
import struct

GGUF_TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144), "i32": (26, 1, 4)}


def padded(data, alignment=32):
    return data + bytes(-len(data) % alignment)


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


def write_gguf(path, tensors):
    """tensors: (name, type, shape innermost first, bytes)."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    data = b""
    for name, kind, shape, values in tensors:
        text = name.encode()
        header += struct.pack("<Q", len(text)) + text + struct.pack("<I", len(shape))
        header += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", GGUF_TYPES[kind][0], len(data))
        data += padded(values)
    path.write_bytes(padded(header) + data)


def write_safetensors(path, tensors):
    """tensors: (name, dtype, shape outermost first, bytes)."""
    header, offset = {}, 0
    for name, dtype, shape, values in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, values in tensors:
            file.write(values)


def read_safetensors(path):
    """name -> (dtype, shape outermost first, bytes)."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = memoryview(data)[8 + size :]
    return {name: (t["dtype"], t["shape"], bytes(body[slice(*t["data_offsets"])])) for name, t in header.items()}


def read_npy(path):
    """(dtype, shape, bytes) of a version 1 file in C order."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10 : 10 + size].decode("latin-1"))
    assert not header["fortran_order"]
    return header["descr"], header["shape"], data[10 + size :]


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values if len(values) > 1 else values[0]

    def text(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip_value(self, kind):
        sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.take("IQ")
            for _ in range(count):
                self.skip_value(inner)
        else:
            self.at += sizes[kind]


def read_gguf(path):
    """name -> (type number, shape innermost first, bytes from its offset on)."""
    reader = _Reader(path.read_bytes())
    magic, version, tensors, keys = reader.take("4sIQQ")
    assert magic == b"GGUF" and version in (2, 3), (magic, version)
    for _ in range(keys):
        reader.text()
        reader.skip_value(reader.take("I"))
    infos = []
    for _ in range(tensors):
        name, rank = reader.text(), reader.take("I")
        shape = [reader.take("Q") for _ in range(rank)]
        kind, offset = reader.take("IQ")
        infos.append((name, kind, shape, offset))
    start = -(-reader.at // 32) * 32
    return {name: (kind, shape, reader.data[start + offset :]) for name, kind, shape, offset in infos}


def first_difference(dtype, expected, got):
    """Index of the first value that differs by a bit, where any NaN equals any NaN; None where there is none."""
    if expected == got:
        return None
    code, magnitude, infinity = {"F32": ("I", 0x7FFFFFFF, 0x7F800000), "F16": ("H", 0x7FFF, 0x7C00),
                                 "BF16": ("H", 0x7FFF, 0x7F80)}[dtype]
    if len(expected) != len(got):
        return 0
    pairs = zip(struct.iter_unpack("<" + code, expected), struct.iter_unpack("<" + code, got))
    for index, ((e,), (g,)) in enumerate(pairs):
        both_nan = (e & magnitude) > infinity and (g & magnitude) > infinity
        if e != g and not both_nan:
            return index
    return None
