"""Arguments and options that several verbs share, and how typed text becomes values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import RejectedInput
from pipeline.fingerprint import encode_path
from pipeline.types import ContextSlug, SourcePath

if TYPE_CHECKING:
    from manifests import Manifest

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
ContextName = Annotated[
    str, typer.Argument(metavar="CONTEXT", help="Name of the context; `lamina contexts` lists them.")
]

MANIFEST_BYTES_MAX = 1 << 20

_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def text_of(typed: str) -> str:
    """Typed text as valid Unicode, for everything but file names: bytes that aren't UTF-8 have no meaning there."""
    return typed.encode("utf-8", "replace").decode("utf-8")


def slug_of(typed: str) -> ContextSlug:
    """Typed text as the name of a context that is to be there; looking it up tells whether it is."""
    return ContextSlug(text_of(typed))


def seconds_of(text: str) -> float:
    """A duration such as 90s, 15m, 2h or 7d in seconds.

    Raises:
        RejectedInput: it is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise RejectedInput(
            "bad_duration", f"{text!r} is not a duration", remedy="write one such as 90s, 15m, 2h or 7d"
        )
    return float(match.group(1)) * _SECONDS[match.group(2)]


def pairs_of(texts: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE texts as a mapping.

    Raises:
        RejectedInput: one of them has no `=`, or a key comes twice with different values.
    """
    out: dict[str, str] = {}
    for text in map(text_of, texts):
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise RejectedInput(
                "bad_setting", f"--set {text!r} is not KEY=VALUE", remedy="write, for example: --set embedder=static"
            )
        if out.setdefault(key, value) != value:
            raise RejectedInput("bad_setting", f"--set gives {key} twice", remedy="give it once")
    return out


def source_names(text: str) -> tuple[SourcePath, ...]:
    """What a typed source path may stand for: the raw file name, and the form in which the ledger writes it."""
    tidy = os.path.normpath(text) if text else ""
    raw = encode_path(os.fsencode(tidy))
    encoded = SourcePath(text_of(tidy))
    return tuple(dict.fromkeys((raw, encoded)))


def read_manifest(path: str) -> Manifest:
    """The manifest in a file.

    Raises:
        RejectedInput: the file can't be read.
        ManifestError: it is no usable manifest.
    """
    from manifests import load_manifest  # noqa: PLC0415  # its models take a good part of a second to build

    return load_manifest(read_text(path), path)


def read_text(path: str) -> str:
    """A manifest file's text.

    Raises:
        RejectedInput: there is no such file, it is too long, or not UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MANIFEST_BYTES_MAX + 1)
    except OSError as error:
        raise RejectedInput("no_manifest", f"can't read {path}: {error.strerror}", remedy="check the path") from error
    if len(data) > MANIFEST_BYTES_MAX:
        raise RejectedInput("bad_manifest", f"{path} is longer than 1 MiB", remedy="is it a manifest?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RejectedInput(
            "bad_manifest", f"{path} is not UTF-8 text: byte {error.start}", remedy="save it as UTF-8"
        ) from error


def folder_slug(name: str, given: str) -> ContextSlug:
    """The context that a folder belongs to: the one named, or the one its own name makes.

    Raises:
        RejectedInput: neither is usable.
    """
    from pipeline import contexts  # noqa: PLC0415  # wanted by one verb

    return contexts.checked_slug(text_of(given)) if given else contexts.slug_from(name)
