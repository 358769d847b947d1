"""Reads TFRecord files without TensorFlow and checks their CRC-32C checksums.

A record is its length (8 bytes, little endian), the length's checksum (4), the data, the data's
checksum (4). Source: TensorFlow, `lib/io/record_writer.h`.
"""

import struct
from pathlib import Path

from batch_calibration.errors import InputError

HEAD, TAIL = 12, 4  # bytes before and after the data


def masked(crc: int) -> int:
    """A checksum as TFRecord stores it: rotated by 15 bits and shifted by a constant."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> list[bytes]:
    """The records of one file, in order.

    Raises:
      InputError: the file is missing, cut short, or a checksum differs; with the record's number.
    """
    try:
        from google_crc32c import value as crc32c
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path}: checking TFRecord files needs google-crc32c; "
            "pip install 'batch-calibration[data]'."
        ) from error
    if not path.is_file():
        raise InputError(f"{path}: no such file, but the data set's info lists it.")
    raw = path.read_bytes()
    payloads: list[bytes] = []
    start = 0
    while start < len(raw):
        where = f"{path}, record {len(payloads)}"
        # Made before it is needed: two checks below raise it.
        ends_early = InputError(f"{where}: the file ends inside it; copy or prepare it again.")
        if start + HEAD > len(raw):
            raise ends_early
        length, stored = struct.unpack_from("<QI", raw, start)
        if masked(crc32c(raw[start : start + 8])) != stored:
            raise InputError(
                f"{where}: the length's checksum differs; the file is damaged or no TFRecord "
                "file; copy or prepare it again."
            )
        start += HEAD
        if start + length + TAIL > len(raw):
            raise ends_early
        payload = raw[start : start + length]
        (stored,) = struct.unpack_from("<I", raw, start + length)
        if masked(crc32c(payload)) != stored:
            raise InputError(
                f"{where}: its checksum differs; the file is damaged; copy or prepare it again."
            )
        payloads.append(payload)
        start += length + TAIL
    return payloads
