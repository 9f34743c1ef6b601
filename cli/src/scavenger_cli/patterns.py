"""What the regular expressions of the CustomResourceDefinitions ask for, in words."""

from __future__ import annotations

from typing import Final

NAME: Final = "lower case letters, digits and dashes, with a letter or a digit at both ends"

_WORDS: Final = {
    "[numkMGTPE]": "a quantity: a number with an optional suffix, as 500m, 2 or 4Gi",
    "(:[0-9]{1,7})?": "indexes, as 1-1000, 0-99:3 or 1,5,9-12",
    "(h|m|s|ms)": "a duration, as 90s, 30m or 2h",
    "^[!-~]+$": "it in ASCII and without spaces",
    "^/[^:]*$": "an absolute path without a colon, as /work",
    "^[a-z0-9](": NAME,
    "RFC 1123": NAME,
    "[-A-Za-z0-9_.]{0,61}": "letters, digits, dashes, dots and underscores, with a letter or a digit at both ends",
    "^[-._a-zA-Z]": "letters, digits, dashes, dots and underscores, with no digit at the beginning",
    "^[A-Z][A-Z_]*$": "a capability in capitals, as ALL or NET_RAW",
    "^[A-Za-z]([A-Za-z0-9_,:]*": "one word in letters and digits",
}
"""By a part of the expression, or of the words that the API server has for it."""


def meaning(text: str) -> str | None:
    """What a pattern, or a message of the API server that shows one, asks for.

    Returns:
        The words that follow "write"; None where the text shows no known pattern.
    """
    return next((words for sign, words in _WORDS.items() if sign in text), None)
