"""The manifest: the one document that says what an index is made of, how it is tuned and how it is asked.

    text --load_manifest--> Manifest --canonical_json--> text
                                |------leg_fingerprint--> when a leg is stale
                                |------diff-------------> what changed, and what that costs

Reading order: `model` (keys, limits, defaults), `rules` (what spans keys), `syntax` and `loading` (text to values or to
problems), `canonical`, `diff`, `schema`, `templates`. This package imports nothing from the rest of Lamina.
"""

from manifests import templates
from manifests.canonical import canonical_json, leg_fingerprint, leg_values, resolved
from manifests.diff import Change, LegDiff, ManifestDiff, diff
from manifests.loading import load_manifest, manifest_from, validate_text
from manifests.model import LEGS, Leg, Manifest
from manifests.problems import ManifestError, Problem
from manifests.rules import table_name
from manifests.schema import schema_json

__all__ = [
    "LEGS",
    "Change",
    "Leg",
    "LegDiff",
    "Manifest",
    "ManifestDiff",
    "ManifestError",
    "Problem",
    "canonical_json",
    "diff",
    "leg_fingerprint",
    "leg_values",
    "load_manifest",
    "manifest_from",
    "resolved",
    "schema_json",
    "table_name",
    "templates",
    "validate_text",
]
