"""TFRecord files without TensorFlow: records between lengths and masked CRC-32C checksums.

A record is its length (8 bytes, little endian), the length's checksum (4), the data, the data's
checksum (4). Source: TensorFlow, `lib/io/record_writer.h`; CRC-32C: RFC 3720, appendix B.4.
"""

import struct
from pathlib import Path

import numpy as np

from batch_calibration.errors import InputError

POLYNOMIAL = 0x82F63B78
HEAD, TAIL = 12, 4


def _table() -> np.ndarray:
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> 1) ^ np.uint32(POLYNOMIAL), crc >> 1).astype(np.uint32)
    return crc


TABLE = _table()


def crc32c(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The CRC-32C of each stretch of bytes, all stretches one byte further at a time.

    Args:
      data: bytes, `uint8`.
      starts: where each stretch begins, `[n]`.
      lengths: how long it is, `[n]`.

    Returns:
      `uint32` checksums, `[n]`.

    >>> data = np.frombuffer(b"123456789", np.uint8)
    >>> hex(crc32c(data, np.array([0]), np.array([9]))[0])
    '0xe3069283'
    """
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    crc = np.full(len(starts), 0xFFFFFFFF, np.uint32)
    for place in range(int(lengths[0]) if len(lengths) else 0):
        longer = int(np.searchsorted(-lengths, -place, side="left"))
        step = (crc[:longer] ^ data[starts[:longer] + place]) & np.uint32(255)
        crc[:longer] = TABLE[step] ^ (crc[:longer] >> np.uint32(8))
    found = np.empty_like(crc)
    found[order] = ~crc
    return found


def masked(crc: np.ndarray) -> np.ndarray:
    """Checksums as TFRecord stores them: rotated and shifted by a constant."""
    turned = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return turned + np.uint32(0xA282EAD8)


def records(path: Path) -> list[bytes]:
    """The records of one file, in order.

    Raises:
      InputError: the file is missing, torn, or a checksum differs; with the record's number.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file, but the data set's info lists it.")
    raw = path.read_bytes()
    starts: list[int] = []
    lengths: list[int] = []
    place = 0
    while place < len(raw):
        torn = InputError(
            f"{path}, record {len(starts)}: the file ends inside it; copy or prepare it again."
        )
        if place + HEAD > len(raw):
            raise torn
        length, stored = struct.unpack_from("<QI", raw, place)
        head = np.frombuffer(raw, np.uint8, 8, place)
        if masked(crc32c(head, np.array([0]), np.array([8])))[0] != stored:
            raise InputError(
                f"{path}, record {len(starts)}: the length's checksum differs; the file is damaged "
                "or no TFRecord file; copy or prepare it again."
            )
        if place + HEAD + length + TAIL > len(raw):
            raise torn
        starts.append(place + HEAD)
        lengths.append(length)
        place += HEAD + length + TAIL
    begin, size = np.array(starts, np.int64), np.array(lengths, np.int64)
    found = masked(crc32c(np.frombuffer(raw, np.uint8), begin, size))
    said = [struct.unpack_from("<I", raw, s + n)[0] for s, n in zip(starts, lengths, strict=True)]
    wrong = np.flatnonzero(found != np.array(said, np.uint32))
    if len(wrong):
        raise InputError(
            f"{path}, record {wrong[0]}: its checksum differs; the file is damaged; copy or "
            "prepare it again."
        )
    return [raw[s : s + n] for s, n in zip(starts, lengths, strict=True)]
