"""Which keys an object store takes. One rule for every adapter."""

from __future__ import annotations

import re
from typing import Final

from pipeline.errors import RejectedInput

KEY_CHARS_MAX: Final = 1_024
_KEY: Final = re.compile(r"(?!\.)[!-.0-\[\]-~]{1,255}(?:/(?!\.)[!-.0-\[\]-~]{1,255})*")
"""Printable ASCII but space and backslash; no part starts with a dot, which rules out `..` and names of the store's own."""


def checked(key: str) -> str:
    """The key itself.

    Raises:
        RejectedInput: code `bad_key`.
    """
    if len(key) > KEY_CHARS_MAX or not _KEY.fullmatch(key):
        raise RejectedInput(
            "bad_key",
            f"{key[:80]!r} is not a key of '/'-separated ASCII parts",
            remedy="Use printable ASCII without spaces and backslashes, no part starting with a dot.",
        )
    return key
