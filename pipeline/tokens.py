"""Exact cl100k token counts and positions, from a vocabulary that ships with the package. No network, no cache folder.

Everything that counts tokens counts them here. Spellings of control tokens in a text are plain text: only
`encode_ordinary` is used. Encoding is the dearest step of chunking, so a text is encoded once by `boundaries` and the
chunkers work on positions.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from importlib import resources
from itertools import pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt
import tiktoken

from pipeline.errors import Corruption
from pipeline.fingerprint import content_hash

IDENTITY = "cl100k_base@223921b7"
"""Name and first hash digits of the vocabulary; part of every chunk fingerprint."""

_FILE = "cl100k_base.tiktoken"
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"(?:'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n])|"
    r"\s+(?!\S)|\s"
)
"""What the published pattern matches, without its possessive quantifiers: none of them decides anything, since what
follows each can't match what it took. The first six alternatives then need no backtracking, so the automaton of Rust's
`regex` takes them, in two thirds of the time. `tests/unit/test_tokens.py` compares the two over every character.
"""
_SPECIAL = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}
_LOCK = Lock()

_SPACE = r"[\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""White space as Unicode has it, but for line feed and carriage return."""
_RUN_MAX = 1 << 19
_LONG_RUN = re.compile(rf"(?<!{_SPACE}){_SPACE}{{{_RUN_MAX},}}+(?=[^\r\n])")
"""White space before text that tiktoken's look-ahead can't take: past a million characters its stack is full."""


def count(text: str) -> int:
    """Number of cl100k tokens of `text`. Deterministic; time is linear in the text."""
    encoding = _encoding()[0]
    if len(text) < _RUN_MAX:
        return len(encoding.encode_ordinary(text))
    return sum(len(encoding.encode_ordinary(part)) for part in _without_long_runs(text))


def boundaries(text: str) -> npt.NDArray[np.int64]:
    """Code-point offset at which each token of `text` starts, in order; one encoding pass.

    A token that starts inside a character (its bytes are split) has the offset of that character, so offsets never
    fall but may repeat.
    """
    encoding, lengths = _encoding()
    # As `encode_ordinary`, without a list of Python numbers in between.
    ids = np.concatenate(
        [
            encoding.encode_to_numpy(part, allowed_special=set(), disallowed_special=())
            for part in _without_long_runs(text)
        ]
    )
    sizes = lengths[ids]
    starts: npt.NDArray[np.int64] = np.cumsum(sizes) - sizes
    if text.isascii():
        return starts
    raw = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    # Bytes 0b10xxxxxx continue a character; every other byte starts one.
    character_of_byte = np.cumsum((raw & 0xC0) != 0x80) - 1  # noqa: PLR2004
    offsets: npt.NDArray[np.int64] = character_of_byte[starts]
    return offsets


def _without_long_runs(text: str) -> list[str]:
    """The text in parts whose tokens together are its own, so that no part has a very long run before something else.

    The last character of such a run goes with what follows it, as in a shorter run; the others are a piece.
    """
    if len(text) < _RUN_MAX:
        return [text]
    cuts = [0]
    for run in _LONG_RUN.finditer(text):
        cuts += [run.start(), run.end() - 1]
    return [text[start:end] for start, end in pairwise([*cuts, len(text)]) if start < end] or [text]


def _encoding() -> tuple[tiktoken.Encoding, npt.NDArray[np.int64]]:
    # The lock keeps two threads from loading the vocabulary (0.4 CPU s) at once; afterwards the cache answers.
    with _LOCK:
        return _load()


@cache
def _load() -> tuple[tiktoken.Encoding, npt.NDArray[np.int64]]:
    data = resources.files("pipeline").joinpath("data", _FILE).read_bytes()
    if content_hash(data) != _SHA256:
        raise Corruption("vocabulary_damaged", f"{_FILE} isn't the file that was shipped", remedy="Install again.")
    ranks = {}
    for line in data.splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    lengths = np.zeros(len(ranks), dtype=np.int64)
    lengths[list(ranks.values())] = [len(token) for token in ranks]
    encoding = tiktoken.Encoding(
        "cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL, explicit_n_vocab=None
    )
    return encoding, lengths
