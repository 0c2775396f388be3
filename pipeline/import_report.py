"""What an import tells: one record for each thing it saw, all of them in a file, samples and counts in memory.

The output is `ImportOutput` of the contract, a record `ImportManifestEntry`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, TextIO

from pipeline.types import SourcePath

SAMPLE_RECORDS = 100
SAMPLE_PATHS = 100
"""Paths that one record of a sample names."""


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one given file, or of one entry that was left out."""

    src: str
    """The file as given; for an entry of an archive `archive!/entry`."""
    action: str
    """copied, extracted, skipped or failed."""
    out: tuple[SourcePath, ...] = ()
    """Paths in the staged tree."""
    fmt: str = ""
    reason: str = ""
    size: int = 0
    """Bytes of all of `out`."""

    def document(self, paths: int | None = None) -> dict[str, Any]:
        """The record as JSON, with at most so many paths."""
        return {
            "src": self.src,
            "action": self.action,
            "out": list(self.out[:paths]),
            "fmt": self.fmt,
            "reason": self.reason,
            "bytes": self.size,
        }


@dataclass(slots=True)
class Report:
    """Records as they come. Memory is bounded by the samples."""

    file: TextIO
    """Takes every record, one JSON document a line."""
    imported: int = 0
    outputs: int = 0
    skipped: int = 0
    failed: int = 0
    truncated: bool = False
    skips: list[Record] = field(default_factory=list)
    failures: list[Record] = field(default_factory=list)
    taken: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Write a record down and count it."""
        self.file.write(json.dumps(record.document()) + "\n")
        if record.action == "skipped":
            self.skipped += 1
            self._sample(self.skips, record)
        elif record.action == "failed":
            self.failed += 1
            self.failures.append(record)  # given files: as many as were typed
        else:
            self.imported += 1
            self.outputs += len(record.out)
            self.truncated |= len(record.out) > SAMPLE_PATHS
            self._sample(self.taken, record)

    def _sample(self, sample: list[Record], record: Record) -> None:
        if len(sample) < SAMPLE_RECORDS:
            sample.append(record)
        else:
            self.truncated = True

    def flush(self) -> None:
        """Make the records durable."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def document(self, manifest_file: str) -> dict[str, Any]:
        """The import's output. `manifest_file` is relative to the context's folder."""
        return {
            "status": "partial" if self.failed else "completed",
            "imported_items": self.imported,
            "output_files": self.outputs,
            "failed": self.failed,
            "skipped": self.skipped,
            "skipped_items": [record.document() for record in self.skips],
            "manifest_sample": [record.document(SAMPLE_PATHS) for record in self.taken],
            "manifest_truncated": self.truncated,
            "manifest_file": manifest_file,
        }
