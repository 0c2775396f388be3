"""The ledger's protocol for what the artifact leg knows; a part of `pipeline.ledger`, whose rules hold here, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline.rows import (
    ArtifactRow,
    DecisionRow,
    EdgeRow,
    FileRow,
    MemberRow,
    SpendRow,
    StatementRow,
    SubjectRow,
)
from pipeline.types import ContextSlug, LogicalId, RunId, SourcePath


class Knowledge(Protocol):
    """The artifact leg's rows by version. `wanted`: open once the run's plan is carried out."""

    def add(
        self, slug: ContextSlug, rows: Sequence[StatementRow | SubjectRow | MemberRow | ArtifactRow | EdgeRow]
    ) -> None: ...

    def statements_open(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[StatementRow, ...]: ...
    def statements_at(
        self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]
    ) -> tuple[StatementRow, ...]: ...
    def wanted_of(
        self, slug: ContextSlug, run: RunId, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        """Wanted statements of a type on these names, by path and ordinal within each block of names."""
        ...

    def opened_of(
        self, slug: ContextSlug, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        """As `wanted_of`, with those that the run removes."""
        ...

    def wanted_in(
        self, slug: ContextSlug, run: RunId, paths: Sequence[SourcePath], kind: str
    ) -> tuple[StatementRow, ...]: ...
    def page_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[StatementRow, ...]: ...
    def holds_any(self, slug: ContextSlug) -> bool:
        """Whether there is any statement, of whatever version."""
        ...

    def moved(self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int) -> tuple[StatementRow, ...]:
        """Statements that the run adds or removes, by id."""
        ...

    def page_statements(
        self, slug: ContextSlug, version: int, kind: str, after: str, limit: int
    ) -> tuple[StatementRow, ...]: ...
    def key_names(self, slug: ContextSlug, type_: str, rows: Iterable[tuple[str, str]]) -> None:
        """Remember (blocking key, name)."""
        ...

    def keys_of(self, slug: ContextSlug, type_: str, names: Sequence[str]) -> frozenset[str]:
        """The blocking keys of these names."""
        ...

    def names_with(self, slug: ContextSlug, type_: str, keys: Sequence[str]) -> frozenset[str]:
        """Names that have one of these blocking keys."""
        ...

    def forget_names(self, slug: ContextSlug) -> None:
        """Drop names that no statement holds any more."""
        ...

    def visit(self, run: RunId, type_: str, names: Sequence[str]) -> None: ...
    def unvisited(self, run: RunId, type_: str, names: Sequence[str]) -> tuple[str, ...]: ...
    def page_visited(self, run: RunId, type_: str, after: str, limit: int) -> tuple[str, ...]: ...
    def subjects_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]: ...
    def subjects_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]: ...
    def members_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[MemberRow, ...]: ...
    def members_of(self, slug: ContextSlug, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]:
        """Open members."""
        ...

    def statements_of(
        self, slug: ContextSlug, run: RunId, subjects: Sequence[LogicalId]
    ) -> dict[LogicalId, list[StatementRow]]:
        """Wanted statements of wanted subjects, by path and ordinal."""
        ...

    def unreduced(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[StatementRow, ...]:
        """Wanted statements that belong to no subject yet, by id; edges never do."""
        ...

    def orphans(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[MemberRow, ...]:
        """Open members of which no statement is wanted, by id."""
        ...

    def subject_ids_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[SubjectRow, ...]: ...
    def members_wanted(self, slug: ContextSlug, run: RunId, statements: Sequence[str]) -> tuple[MemberRow, ...]: ...
    def members_at(self, slug: ContextSlug, version: int, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]: ...
    def member_paths_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SourcePath, ...]:
        """Sources of which a statement is to change its subject."""
        ...

    def best_subjects(
        self, slug: ContextSlug, run: RunId, type_: str, least: int, after: tuple[int, int, str] | None, limit: int
    ) -> tuple[SubjectRow, ...]:
        """Wanted subjects that at least so many sources speak of: most sources, then most mentions, then id.

        `after`: documents, mentions and id of the last one seen.
        """
        ...

    def count_subjects(self, slug: ContextSlug, run: RunId, type_: str, least: int) -> int:
        """How many `best_subjects` there are."""
        ...

    def subjects_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SubjectRow, ...]:
        """Subjects that the run adds or removes, by id."""
        ...

    def page_subjects(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SubjectRow, ...]: ...
    def page_named_subjects(
        self, slug: ContextSlug, version: int, after: tuple[str, str, str], limit: int
    ) -> tuple[SubjectRow, ...]:
        """Subjects past `after` = (type, name, id), in that order."""
        ...

    def subjects_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]: ...
    def artifacts_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]: ...
    def artifacts_diverged(self, slug: ContextSlug, live: int, after: str, limit: int) -> tuple[ArtifactRow, ...]:
        """Open artifacts that `live` doesn't show, and those of `live` that are closed."""
        ...

    def page_added_artifacts(self, slug: ContextSlug, number: int, skip: int, limit: int) -> tuple[ArtifactRow, ...]:
        """What the number adds, by id, past the first `skip`."""
        ...

    def artifacts_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]: ...
    def artifacts_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]: ...
    def page_wanted_artifacts(
        self, slug: ContextSlug, run: RunId, after: tuple[str, str, str], limit: int, *, format_: str = ""
    ) -> tuple[ArtifactRow, ...]:
        """Wanted artifacts past `after` = (type, name, id), in that order."""
        ...

    def page_artifacts(
        self, slug: ContextSlug, version: int, after: tuple[str, str, str], limit: int, *, format_: str = ""
    ) -> tuple[ArtifactRow, ...]: ...
    def artifacts_named(self, slug: ContextSlug, version: int, names: Sequence[str]) -> tuple[ArtifactRow, ...]: ...
    def formats_moved(self, slug: ContextSlug, run: RunId, number: int, format_: str) -> bool:
        """Whether the run adds or removes an artifact of this format."""
        ...

    def count_artifacts(self, slug: ContextSlug, number: int, base: int) -> dict[tuple[str, bool], int]:
        """Artifacts that the number adds, by (scope, whether `base` shows another revision of it)."""
        ...

    def edges_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[EdgeRow, ...]: ...
    def edges_in(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[EdgeRow, ...]:
        """Open rows that these sources support."""
        ...

    def edges_wanted_of(self, slug: ContextSlug, run: RunId, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        """Wanted rows that start at these artifacts."""
        ...

    def page_wanted_edges(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[EdgeRow, ...]: ...
    def edge_sources_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[LogicalId, ...]:
        """Artifacts at which an edge starts that the run adds or removes."""
        ...

    def edges_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        """Rows with one of these artifacts at an end."""
        ...

    def page_edges_of(
        self, slug: ContextSlug, version: int, artifact: LogicalId, after: str, limit: int
    ) -> tuple[EdgeRow, ...]:
        """Rows with this artifact at an end, by id."""
        ...

    def page_edges(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[EdgeRow, ...]: ...
    def count_edges(self, slug: ContextSlug, number: int) -> int:
        """Edges, not rows, of which the number adds a row."""
        ...

    def dangling(self, slug: ContextSlug, run: RunId) -> tuple[str, ...]:
        """Some wanted edge rows with an end that is no wanted artifact."""
        ...

    def decide(self, slug: ContextSlug, row: DecisionRow) -> None:
        """Record a decision, again or anew."""
        ...

    def decisions(self, slug: ContextSlug) -> tuple[DecisionRow, ...]:
        """Oldest first, those taken back included until a run has undone them."""
        ...

    def set_withdrawn(self, slug: ContextSlug, decision: str, withdrawn: bool) -> None:  # noqa: FBT001 - the column
        """Take a decision back, or take that back; the version that it held from stays."""
        ...

    def drop_decision(self, slug: ContextSlug, decision: str) -> None:
        """Forget a decision that no run has taken up."""
        ...

    def apply_decisions(self, slug: ContextSlug, ids: Sequence[str], number: int) -> None: ...
    def file_at(self, slug: ContextSlug, version: int, path: str) -> FileRow | None:
        """The file under a path of the knowledge tree."""
        ...

    def spend(self, run: RunId, row: SpendRow) -> None:
        """Add to what the run was billed."""
        ...

    def spent(self, run: RunId) -> tuple[SpendRow, ...]: ...
