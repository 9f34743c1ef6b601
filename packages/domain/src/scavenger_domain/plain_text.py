"""Text of strangers as a terminal, a log and a page may show it.

A termination message has any bytes: sequences that move the cursor, clear the screen or set its title, and characters
that make a line read in another order than it is written. They are shown as escapes, once, where such text comes in or
is printed.
"""

from __future__ import annotations

from typing import Final

_BIDI: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Unicode's controls of direction (UAX 9)."""

_LINES: Final = (0x2028, 0x2029)
"""What else some programs take for the end of a line."""

CONTROLS: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDI, *_LINES) if chr(code) not in "\t\n"
}
"""For `str.translate`: C0 but tab and newline, DEL, C1 and controls of direction. In strings of JSON, and in YAML's
between double quotes, the escapes mean the same characters."""


def plain(text: str) -> str:
    """The text without anything that a terminal obeys."""
    return text if text.isprintable() and text.isascii() else text.translate(CONTROLS)
