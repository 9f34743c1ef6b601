"""Text of strangers, shown as text."""

from __future__ import annotations

import json

import pytest
from scavenger_domain.plain_text import CONTROLS, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ä, 漢字, 🙂\tand\ntwo lines", "plain, ä, 漢字, 🙂\tand\ntwo lines"),
        ("\x1b[2J\x1b]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"),
        ("\x9b2J", "\\u009b2J"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("\u2066a\u2069 \u200f\u061c", "\\u2066a\\u2069 \\u200f\\u061c"),
        ("over\rwritten\x7f\x00", "over\\u000dwritten\\u007f\\u0000"),
        ("one\u2028line", "one\\u2028line"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(shown) == shown


def test_strings_of_json_mean_the_same() -> None:
    text = "".join(map(chr, [*range(0x250), *range(0x2000, 0x2070)]))
    assert json.loads(json.dumps(text, ensure_ascii=False).translate(CONTROLS)) == text
