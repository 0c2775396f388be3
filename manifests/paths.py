"""Where things are in a manifest: paths as text, and the model or field that a path leads to."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from manifests.model import Manifest

Location = tuple[str | int, ...]
"""Keys and list positions from the root, as pydantic reports them."""

KEY_CHARACTERS_MAX = 64
"""Longest piece of a path that is repeated whole; the longest key of the manifest is far shorter."""


def path_text(location: Location) -> str:
    """`("a", "b", 2, "c")` as `a.b[2].c`; overlong keys are shortened, unprintable characters escaped."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in part[:KEY_CHARACTERS_MAX])
            text += ("." if text else "") + key + ("..." if len(part) > KEY_CHARACTERS_MAX else "")
    return text


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A section's keys as documents spell them, with their fields."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, itself or as list items; None if it holds plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := section_of(inner))), None)


def field_at(location: Location) -> FieldInfo | None:
    """The field that a location names or lies in as a list item; None where the manifest has no such key."""
    model: type[BaseModel] | None = Manifest
    field: FieldInfo | None = None
    for part in location:
        if isinstance(part, int):
            continue
        field = keys_of(model).get(part) if model else None
        if field is None:
            return None
        model = section_of(field.annotation)
    return field


def section_at(location: Location) -> type[BaseModel] | None:
    """The section at a location; the whole manifest at the root."""
    if not location:
        return Manifest
    field = field_at(location)
    return section_of(field.annotation) if field else None


@cache
def key_paths() -> tuple[str, ...]:
    """Every key path of the manifest in document order, items of lists as `[]`: `curate.chunks.enabled`, ..."""
    found: list[str] = []

    def visit(model: type[BaseModel], prefix: str) -> None:
        for key, field in keys_of(model).items():
            path = f"{prefix}{key}"
            found.append(path)
            inner = section_of(field.annotation)
            if inner is not None:
                visit(inner, f"{path}." if inner is field.annotation else f"{path}[].")

    visit(Manifest, "")
    return tuple(found)
