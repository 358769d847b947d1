"""Reads the body of an answer: so many bytes of it and no more, and the JSON in them."""

import json
import zlib
from typing import TYPE_CHECKING

from batch_calibration.errors import InputError
from batch_calibration.files import Json, parse_json

if TYPE_CHECKING:
    import httpx2

USUAL_ANSWER = 4 << 20  # bytes that every answer may have: the likeliest 20,000 tokens of one place
ANSWER_PER_BYTE = 256
"""Bytes that an answer may have for each byte sent: a server scores every token of a prompt."""
ENCODINGS = "gzip"
"""What servers may compress answers with: zlib inflates it piece by piece, so that a small answer
that would fill the memory is seen in time."""


class TornAnswer(ValueError):
    """An answer that is not whole; another attempt may mend it."""


async def read_body(response: "httpx2.Response", sent: int) -> bytes:
    """The body of a streamed answer to so many bytes `sent`, inflated.

    Raises:
        InputError: it is larger than an answer to so much can be, before or after it is inflated;
            it is compressed in another way than `ENCODINGS`.
        TornAnswer: what was compressed is damaged, or ends too early.
    """
    most = USUAL_ANSWER + ANSWER_PER_BYTE * sent
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise InputError(
            where="the answer",
            expected=f"one that is not compressed, or with {ENCODINGS}",
            got="another content-encoding",
            remedy="set the server, or what stands before it, to leave answers as they are",
        )
    # 32 more than the largest window: gzip or zlib, whichever the header says.
    inflater = None if encoding in ("", "identity") else zlib.decompressobj(32 + zlib.MAX_WBITS)
    received, content = 0, bytearray()
    async for chunk in response.aiter_raw():
        received += len(chunk)
        try:
            # One byte more than may come, and never 0, which is no limit to zlib.
            content += inflater.decompress(chunk, most + 1 - len(content)) if inflater else chunk
        except zlib.error as error:
            raise TornAnswer(f"its {encoding} is damaged") from error
        if max(received, len(content)) > most:
            raise InputError(
                where="the answer",
                expected=f"at most {most:,} bytes",
                got="more",
                remedy="correct config.server, or lower config.top_logprobs",
            )
    if inflater and content and not inflater.eof:
        raise TornAnswer(f"its {encoding} ends too early")
    return bytes(content)


def read_json(content: bytes) -> Json:
    """The value of an answer, in UTF-8 as JSON is, or UTF-16 or 32; a charset says nothing.

    Raises:
        ValueError: no JSON; an object that has a key twice, so that one of two values is wrong.
    """
    return parse_json(content.decode(json.detect_encoding(content)), unique_keys=True)
