"""What changed between two manifests, and what that means for what is already indexed.

A leg is stale exactly when its fingerprint moved; the reasons tell in words which values moved it. Nothing here decides
when a source is built again: unforced runs leave stale sources as they are, forced ones build them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manifests.canonical import leg_fingerprint, leg_values, resolved
from manifests.model import LEGS, Leg, Manifest
from manifests.problems import shown

_FORCED = "on the next forced curate"
_CUT = f"every source is cut again {_FORCED}"
_EXTRACTED = f"every source is read again {_FORCED}"
_REDUCED = f"corpus-wide artifacts are merged again {_FORCED}"
_MODEL = (
    "unless the index was built with this very model, an unforced curate is refused; a forced one embeds every chunk "
    "into a new generation"
)
_KEYWORD = "an unforced curate is refused; a forced one builds the word vectors anew in a new generation"

_EFFECTS = {
    "chunking": _CUT,
    "embedding_model": _MODEL,
    "keyword": _KEYWORD,
    "max_mentions_per_artifact": _REDUCED,
    "mention_context_chars": _REDUCED,
    "max_artifacts_per_type": f"artifacts are chosen again {_FORCED}",
}
_TYPE_EFFECTS = {
    "min_doc_count": f"which subjects earn an artifact is decided again {_FORCED}",
    "format": f"its artifacts are written anew in the other format {_FORCED}",
    "columns": f"its table is filled again {_FORCED}",
    "natural_key": f"its rows are identified anew {_FORCED}",
    "sections": f"its headings are read again {_FORCED}",
}
_REFUSED_UNFORCED = ("embedding_model", "keyword")
_NAMED_LISTS = ("artifact_types", "edge_types", "columns")


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs once defaults are filled in."""

    path: str
    """Where, with named things by name: `curate.artifacts.artifact_types[Person].icon`."""
    old: Any
    """JSON value before; None if there was none."""
    new: Any
    """JSON value now; None if there is none."""


@dataclass(frozen=True, slots=True)
class LegDiff:
    """What the change means for one leg."""

    leg: Leg
    stale: bool
    """Whether what is indexed no longer is what the manifest asks for."""
    reasons: tuple[str, ...]
    """Why, one sentence for each value; empty if not stale."""
    refused_unforced: bool
    """Whether a curate without force may be refused: the change asks for another model or word index."""


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """Two manifests compared."""

    changes: tuple[Change, ...]
    legs: tuple[LegDiff, ...]
    """One for each leg, chunks first."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for a machine to read."""
        return {
            "changes": [{"path": c.path, "old": c.old, "new": c.new} for c in self.changes],
            "legs": {
                leg.leg: {
                    "stale": leg.stale,
                    "reasons": list(leg.reasons),
                    "refused_unforced": leg.refused_unforced,
                }
                for leg in self.legs
            },
        }

    def to_lines(self) -> tuple[str, ...]:
        """Lines for people: what changed, then what that means; long values are shortened."""
        if not self.changes:
            return ("No difference once defaults are filled in.",)
        lines = [f"{c.path}: {_shown(c.old)} -> {_shown(c.new)}" for c in self.changes]
        for leg in self.legs:
            lines += leg.reasons if leg.stale else [f"{leg.leg}: what is indexed stays as it is"]
        return tuple(lines)


def diff(old: Manifest, new: Manifest) -> ManifestDiff:
    """Compare two manifests by their resolved values: a default written out is no change; deterministic."""
    changes = tuple(_compare(resolved(old), resolved(new), ""))
    return ManifestDiff(changes, tuple(_leg(old, new, leg) for leg in LEGS))


def _leg(old: Manifest, new: Manifest, leg: Leg) -> LegDiff:
    if leg_fingerprint(old, leg) == leg_fingerprint(new, leg):
        return LegDiff(leg, stale=False, reasons=(), refused_unforced=False)
    before, after = leg_values(old, leg), leg_values(new, leg)
    if before["enabled"] != after["enabled"]:
        return LegDiff(
            leg, stale=True, reasons=(f"{leg}: {_switched(leg, on=after['enabled'])}",), refused_unforced=False
        )
    reasons = [reason for key in _moved(before, after) for reason in _reasons(key, before.get(key), after.get(key))]
    refused = any(before.get(key) != after.get(key) for key in _REFUSED_UNFORCED)
    return LegDiff(leg, stale=True, reasons=tuple(f"{leg}: {r}" for r in reasons), refused_unforced=refused)


def _switched(leg: Leg, *, on: bool) -> str:
    if not on:
        return f"switched off: what it built is removed {_FORCED}"
    what = "cut and embedded" if leg == "chunks" else "read for artifacts"
    return f"switched on: new and changed sources are {what} at once, all others {_FORCED}"


def _reasons(key: str, old: Any, new: Any) -> list[str]:
    if key in ("artifact_types", "edge_types"):
        word = "type" if key == "artifact_types" else "edge"
        return [r for name in _moved(old, new) for r in _named(word, name, old.get(name), new.get(name))]
    if isinstance(old, dict) and isinstance(new, dict):
        label = f"{key}." if key != "chunking" else ""
        return [f"{label}{k} {_shown(old[k])} -> {_shown(new[k])}: {_EFFECTS[key]}" for k in _moved(old, new)]
    if key == "embedding_model":
        old, new = old or "the deployment's default", new or "the deployment's default"
        return [f"{key} {old} -> {new}: {_EFFECTS[key]}"]
    return [f"{key} {_shown(old)} -> {_shown(new)}: {_EFFECTS.get(key, _EXTRACTED)}"]


def _named(word: str, name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    label = f"{word} {shown(name)}"
    if old is None:
        return [f"{label} is new: new and changed sources are read for it at once, all others {_FORCED}"]
    if new is None:
        return [f"{label} is gone: what it built is removed {_FORCED}"]
    moved = _moved(old, new)
    if "kind" in moved or "scope" in moved or "format" in moved:
        # The keys that go with the other kind, scope or format appear or vanish with it; they aren't news.
        moved = [key for key in moved if key in old and key in new]
    again = f"it is extracted again {_FORCED}"
    return [
        f"{label}: {key} {_shown(old[key])} -> {_shown(new[key])}: {_TYPE_EFFECTS.get(key, again)}" for key in moved
    ]


def _moved(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Keys whose value differs, in the order of `old`, then of `new`."""
    return [key for key in old | new if (key in old, old.get(key)) != (key in new, new.get(key))]


def _compare(old: Any, new: Any, path: str) -> Iterator[Change]:
    """Differing leaves; lists of named things are compared by name, other lists are leaves."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in _moved(old, new):
            yield from _compare(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif path.endswith(_NAMED_LISTS) and (both := _by_name(old, new, path)):
        for name in _moved(*both):
            yield from _compare(both[0].get(name), both[1].get(name), f"{path}[{name}]")
    else:
        yield Change(path, old, new)


def _by_name(old: Any, new: Any, path: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Both lists by name, or None where the comparison would hide something: a name used twice, columns reordered."""
    if not isinstance(old, list) or not isinstance(new, list):
        return None
    before, after = ({item["name"]: item for item in items} for items in (old, new))
    if len(before) < len(old) or len(after) < len(new):
        return None
    if path.endswith("columns") and [name for name in before if name in after] != [
        name for name in after if name in before
    ]:
        return None
    return before, after


def _shown(value: Any) -> str:
    return "(none)" if value is None else shown(value).strip('"')
