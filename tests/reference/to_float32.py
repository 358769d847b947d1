"""Writes a copy of a GGUF file with its quantized weights as numbers of 32 bits.

python tests/reference/to_float32.py FILE.gguf COPY.gguf

Runs where gguf is installed (`constraints/server.txt`). llama.cpp rounds states to 8 bits before it
multiplies quantized weights; the copy has the same weights without this rounding.
"""

import sys

import gguf
import numpy as np

OWN = ("general.architecture", "general.file_type", "general.quantization_version")
"""Keys that the writer sets, or that describe the quantized weights."""


def main(source: str, target: str) -> None:
    """Copies metadata, and tensors in float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.get_field(OWN[0]).contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in OWN:
            of_items = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], of_items)
    for tensor in reader.tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
