"""What images, sounds and PDFs cost a model, by what they say of their size.

The most that a provider counts, by their pages of November 2026. An image: Anthropic's token for 28 x 28 pixels, 4,784
at most (platform.claude.com/docs/en/build-with-claude/vision), or OpenAI's 85, and 170 for each 512 x 512 of it, once
its short side is 768. A second of sound: Gemini's 32.
"""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from struct import error, unpack_from

# The base64 of a PDF, or the beginning of another file, within which it tells its size.
_PAYLOAD = re.compile(
    r"(?<![A-Za-z0-9+/])(?:JVBERi0[A-Za-z0-9+/]+|(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/]{0,400000})"
)
_SOUND = re.compile(r'"(?:input_audio"|audio/|data:audio/)')


def measure_media(block: str) -> int:
    """Return the tokens of an image or a sound, by the JSON of its block; of a PDF minus its pages; -1 of all else."""
    found = _PAYLOAD.search(block)
    data = b"" if found is None else b64decode(found[0][: len(found[0]) // 4 * 4])
    if data.startswith(b"%PDF-"):
        pages = sum(1 for _ in re.finditer(rb"/Type\s*/Page\b", data)) or 1 + len(data) // 50_000  # where all is packed
        return -min(1_000, pages)  # no provider takes more
    with suppress(error):  # a header that is cut off
        short, long = sorted(_image_size(data))
        if short:
            scale = min(1.0, 2048 / long, 768 / short)
            tiles = -(-short * scale // 512) * -(-long * scale // 512)
            return max(min(4_784, -(-short // 28) * -(-long // 28)), 85 + 170 * int(tiles))
        if _SOUND.search(block) and (runs := re.findall(r"[A-Za-z0-9+/_-]{64,}", block)):
            rate = 8_000  # bytes a second, of a packed one at 64 kbit/s
            if data.startswith(b"WAVEfmt ", 8):
                (rate,) = unpack_from("<I", data, 28)
            return 32 + 32 * (max(map(len, runs)) * 3 // 4) // max(1, rate)
    return -1


def _image_size(data: bytes) -> tuple[int, ...]:
    """Return the sides, in pixels, of a PNG, GIF, WebP or JPEG; 0 of anything else."""
    if data.startswith(b"IHDR", 12):
        return unpack_from(">II", data, 16)
    if data.startswith(b"GIF8"):
        return unpack_from("<HH", data, 6)
    if data.startswith(b"WEBPVP8X", 8):
        return tuple(side + 1 for side in unpack_from("<HxH", data, 24))
    if data.startswith(b"WEBPVP8L", 8):
        (bits,) = unpack_from("<I", data, 21)
        return bits % 2**14 + 1, (bits >> 14) % 2**14 + 1
    if data.startswith(b"WEBPVP8 ", 8):
        return tuple(side % 2**14 for side in unpack_from("<HH", data, 26))
    at = 2 if data.startswith(b"\xff\xd8") else len(data)
    while at < len(data):  # each segment of a JPEG, up to the one that begins its frame
        kind, length = unpack_from(">xBH", data, at)
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return unpack_from(">HH", data, at + 5)
        at += 2 + length
    return 0, 0
