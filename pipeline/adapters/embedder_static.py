"""Dense embedder: WordLlama's static token vectors from its wheel, some hundred times faster than a transformer.

A text's vector is the mean of its tokens' vectors, made unit length. Only the data files of the wheel are used: importing
the package itself would start to look for downloads.

The tokenizer merges letters only with letters and punctuation only with punctuation (checked against its vocabulary at
load), so a text may be cut where these meet without changing a token. Each distinct piece is then tokenized once.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.embed.dense import unit
from pipeline.errors import Corruption, Unavailable
from pipeline.fingerprint import content_hash
from pipeline.types import Embedding, Float32Array, ModelIdentity, Side

MODEL_SHA256: Final = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
TOKENIZER_SHA256: Final = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
DIM: Final = 256

_TEXTS_AT_ONCE: Final = 64
"""Texts per matrix product: few enough that the product's count matrix stays in the processor's cache."""
_CHARS_AT_ONCE: Final = 1_000_000
"""Characters per matrix product: bounds memory when single texts are huge."""
_CACHE_PIECES_MAX: Final = 80_000
"""Pieces remembered between calls, about 16 MB; past it the cache starts afresh."""
_PIECE_CHARS_MAX: Final = 256
"""Longer runs of letters (encoded data) are cut, since the tokenizer's time grows faster than their length."""
_SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"
"""What the vocabulary writes for a space."""


class _Pieces(dict[str, tuple[int, ...]]):
    """Piece of text to token ids. Fills itself; pure, so a mere cache that threads may share."""

    __slots__ = ("pattern", "tokenizer")

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.pattern = _piece_pattern(tokenizer.get_vocab())

    def __missing__(self, piece: str) -> tuple[int, ...]:
        ids = self.tokenizer.encode(piece.replace(" ", _SPACE), add_special_tokens=False).ids
        found = self[piece] = tuple(ids)
        return found


@dataclass(frozen=True, slots=True)
class _Model:
    weights: Float32Array
    """float32 (tokens, DIM)."""
    pieces: _Pieces


class StaticEmbedder:
    """Port `DenseEmbedder`. Threads may share one instance; the weights are loaded at the first text, once."""

    identity: Final = ModelIdentity("wordllama-l2-supercat", "0.4.0-mean1", MODEL_SHA256, DIM)
    concurrent: Final = False
    texts_per_call: Final = 512

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:  # noqa: ARG002  # both alike
        """Unit-length mean vectors in order; see the port for the contract. There is no window: every token counts.

        Raises:
            Unavailable: the package with the weights is not installed.
            Corruption: weights or tokenizer are not the ones that the identity names.
        """
        vectors = np.zeros((len(texts), DIM), np.float32)
        tokens = at = 0
        while at < len(texts):
            end, chars = at + 1, len(texts[at])
            while end < len(texts) and end - at < _TEXTS_AT_ONCE and chars < _CHARS_AT_ONCE:
                chars += len(texts[end])
                end += 1
            tokens += _embed(self._model(), texts[at:end], vectors[at:end])
            at = end
        return Embedding(unit(vectors), tokens)

    def _model(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            if len(self._loaded.pieces) > _CACHE_PIECES_MAX:
                self._loaded.pieces.clear()
            return self._loaded


def _embed(model: _Model, texts: Sequence[str], out: Float32Array) -> int:
    """Write the sum of each text's token vectors to `out`; its direction is the mean's. Returns tokens."""
    counters = [Counter(model.pieces.pattern.findall(" " + text if text else "")) for text in texts]
    sizes = np.fromiter(map(len, counters), np.int64, len(counters))
    total = int(sizes.sum())
    counts = np.fromiter(chain.from_iterable(counter.values() for counter in counters), np.int64, total)
    found = list(map(model.pieces.__getitem__, chain.from_iterable(counters)))
    widths = np.fromiter(map(len, found), np.int64, total)
    ids = np.fromiter(chain.from_iterable(found), np.int64, int(widths.sum()))
    rows = np.repeat(np.repeat(np.arange(len(texts)), sizes), widths)
    amounts = np.repeat(counts, widths)

    # Counts (texts x distinct tokens) times vectors: each vector is gathered once for all the texts that hold it.
    distinct, columns = np.unique(ids, return_inverse=True)
    cells = np.bincount(rows * len(distinct) + columns, weights=amounts, minlength=len(texts) * len(distinct))
    np.matmul(cells.astype(np.float32).reshape(len(texts), len(distinct)), model.weights[distinct], out=out)
    return int(amounts.sum())


def _piece_pattern(vocabulary: dict[str, int]) -> re.Pattern[str]:
    """Where a text may be cut without changing its tokens: between letters, punctuation and everything else."""
    longer = [token for token in vocabulary if len(token) > 1 and not re.fullmatch(r"<0x..>|<unk>|</?s>", token)]
    for token in longer:
        core = token.lstrip(_SPACE)
        assert _SPACE not in core and len(set(map(str.isalpha, core))) <= 1, "the tokenizer merges across pieces"
    merged = set().union(*longer) - {_SPACE}
    letters = re.escape("".join(sorted(filter(str.isalpha, merged))))
    others = re.escape("".join(sorted(c for c in merged if not c.isalpha())))
    most = _PIECE_CHARS_MAX
    return re.compile(
        rf" {{0,{most}}}+[{letters}]{{1,{most}}}+| {{0,{most}}}+[{others}]{{1,{most}}}+| {{1,{most}}}+|[^ {letters}{others}]"
    )


def _load() -> _Model:
    # Imported here: what embeds nothing should not pay for it.
    try:
        from safetensors.numpy import load  # noqa: PLC0415
        from tokenizers import Tokenizer, normalizers  # noqa: PLC0415
    except ImportError as error:
        raise _missing(error) from error
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise _missing("wordllama is not installed")
    home = Path(spec.origin).parent
    raw = _read(home / "weights" / "l2_supercat_256.safetensors", MODEL_SHA256)
    (half,) = load(raw).values()
    configuration = _read(home / "tokenizers" / "l2_supercat_tokenizer_config.json", TOKENIZER_SHA256)
    tokenizer = Tokenizer.from_str(configuration.decode("utf-8"))
    # Its normaliser only puts a space in front and writes spaces as _SPACE: done here, once a text.
    tokenizer.normalizer = normalizers.Sequence([])
    return _Model(np.ascontiguousarray(half, np.float32), _Pieces(tokenizer))


def _read(path: Path, expected: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _missing(error) from error
    found = content_hash(data)
    if found != expected:
        raise Corruption(
            "embedder_changed",
            f"{path.name} has sha256 {found[:12]}…, expected {expected[:12]}…: its vectors would not be comparable",
            remedy="Install the pinned version of wordllama.",
        )
    return data


def _missing(reason: object) -> Unavailable:
    return Unavailable(
        "embedder_missing",
        f"the static embedder can't be loaded: {reason}",
        remedy="Install wordllama, safetensors and tokenizers, or choose another embedder.",
    )
