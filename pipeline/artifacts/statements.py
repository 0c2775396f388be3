"""What extraction makes of one parsed document: statements, in the shapes that the ledger keeps. Pure but for the asking.

Shapes of `data`, by kind:

    mention   {"text", "aliases", "spans", "context", "company", "values"}
    edge      {"from": [type, name], "to": [type, name], "attributes", "text", "spans"}
    document  {"title", "body", "spans"}
    row       {"row", "spans"}
    glossary  {"text", "spans"}

Spans are half-open code-point ranges of the parsed text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from manifests.model import ArtifactsConfig, ArtifactType
from pipeline.artifacts import names
from pipeline.artifacts.asking import CUT_OFF, Asker
from pipeline.artifacts.glossary import glossary_terms
from pipeline.artifacts.links import bucket
from pipeline.artifacts.windows import halves, header_at, rows_of, windows
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.models import DocumentTask, EdgeSpec, MentionsTask, TypeSpec
from pipeline.rows import StatementRow
from pipeline.types import ParsedDocument, SourcePath

NAME_CHARS_MAX = 200
ALIASES_MAX = 20
SPANS_MAX = 20
CONTEXT_WORDS = 24
"""Words around a subject that are kept as evidence of who or what is meant."""
COMPANY_MAX = 60
"""Other names of its document that are kept with a mention, as evidence of who or what is meant."""
CONTEXT_CHARS = 240
"""Characters on either side that such words are taken from."""


@dataclass(slots=True)
class Found:
    """What one document says, and how the asking went."""

    statements: list[StatementRow] = field(default_factory=list)
    truncated: bool = False
    """Part of the text was left out at the input cap."""
    screened: int = 0
    """Items that a model gave and nobody can use: of the wrong shape, or without ground in the text."""
    errors: list[str] = field(default_factory=list)
    """Calls that failed for good, in words; with any, the document's statements aren't whole."""
    asked: int = 0
    """Calls that had to be made."""


def type_spec(type_: ArtifactType) -> TypeSpec:
    """The type as a model is told of it."""
    columns = tuple((c.name, c.type, c.description) for c in type_.columns) if type_.format == "sqlite" else ()
    return TypeSpec(type_.name, type_.kind, type_.description, type_.coverage, columns, type_.natural_key)


def extract(
    document: ParsedDocument, path: SourcePath, config: ArtifactsConfig, asker: Asker, *, part: str = ""
) -> Found:
    """Everything that the manifest's types want of one document.

    Args:
        document: parsed text and structure.
        path: the source's.
        config: types, edges, windows, caps.
        asker: the model.
        part: name of the document inside the source; empty for the source's own text.

    Raises:
        Unavailable: the model didn't answer; what was answered is in the memo.
    """
    found = Found()
    read = windows(
        document.text,
        window_chars=config.extraction_window_chars,
        call_chars=config.max_doc_chars,
        rows=rows_of(document),
    )
    found.truncated = read.truncated
    collected = _Collected(path, config, part)
    corpus = [t for t in config.artifact_types if t.scope == "corpus" and t.kind != "glossary"]
    if corpus:
        scopes = {t.name: t.scope for t in config.artifact_types}
        edges = [e for e in config.edge_types if scopes[e.from_type] == "corpus" and scopes[e.to_type] == "corpus"]
        specs = (tuple(map(type_spec, corpus)), tuple(map(_edge_spec, edges)))
        for start, end in read.windows:
            _mentions(document, start, end, specs, config, asker, found, collected)
    for type_ in config.artifact_types:
        if type_.kind == "glossary":
            collected.glossary(type_, document)
        elif type_.scope == "document":
            _document(document, read.windows, type_, asker, found, collected)
    found.statements = collected.rows()
    return found


def _edge_spec(edge: Any) -> EdgeSpec:
    return EdgeSpec(edge.name, edge.from_type, edge.to_type, edge.description, edge.attributes)


def _guarded(found: Found, what: str, error: RejectedInput) -> None:
    found.errors.append(f"{what}: {error.message}")


def _mentions(
    document: ParsedDocument,
    start: int,
    end: int,
    specs: tuple[tuple[TypeSpec, ...], tuple[EdgeSpec, ...]],
    config: ArtifactsConfig,
    asker: Asker,
    found: Found,
    collected: _Collected,
) -> None:
    text = document.text[start:end]
    task = MentionsTask(document.title, text, *specs, config.mention_max_chars, header_at(document, start))
    try:
        answer = asker.ask(task)
    except RejectedInput as error:
        parts = halves(text) if error.code in (CUT_OFF, "too_long") else ()
        if not parts:
            _guarded(found, "mentions", error)
        for first, last in parts:
            _mentions(document, start + first, start + last, specs, config, asker, found, collected)
        return
    found.asked += answer.bought
    found.screened += answer.dropped + collected.mentions(answer.value, document.text, start, end)


def _document(
    document: ParsedDocument,
    read: Sequence[tuple[int, int]],
    type_: ArtifactType,
    asker: Asker,
    found: Found,
    collected: _Collected,
) -> None:
    spec, parts, errors = type_spec(type_), list[tuple[int, int, dict[str, Any]]](), len(found.errors)
    for start, end in read:
        _document_part(document, start, end, spec, asker, found, parts)
    if len(found.errors) > errors:
        return  # half a document is no document
    if spec.columns:
        collected.table(type_, parts)
    elif parts:
        found.screened += collected.document(type_, document, parts)


def _document_part(
    document: ParsedDocument,
    start: int,
    end: int,
    spec: TypeSpec,
    asker: Asker,
    found: Found,
    parts: list[tuple[int, int, dict[str, Any]]],
) -> None:
    text = document.text[start:end]
    try:
        answer = asker.ask(DocumentTask(document.title, text, spec, header_at(document, start)))
    except RejectedInput as error:
        divided = halves(text) if error.code in (CUT_OFF, "too_long") else ()
        if not divided:
            _guarded(found, spec.name, error)
        for first, last in divided:
            _document_part(document, start + first, start + last, spec, asker, found, parts)
        return
    found.asked += answer.bought
    found.screened += answer.dropped
    parts.append((start, end, answer.value))


def row_key(row: Mapping[str, Any], natural_key: Sequence[str]) -> str:
    """What a row is known by: its natural key's values, or, without one, itself."""
    if natural_key:
        return canonical_json([row.get(column) for column in natural_key])
    return "#" + fingerprint("row", canonical_json(dict(row)))[:16]


@dataclass(slots=True)
class _Mention:
    """What a document says of one subject, window after window."""

    name: str
    texts: list[str] = field(default_factory=list)
    aliases: dict[str, None] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


class _Collected:
    """The statements of one document, in the order in which they were found."""

    def __init__(self, path: SourcePath, config: ArtifactsConfig, part: str) -> None:
        self._path = path
        self._config = config
        self._part = part
        self._held: dict[tuple[str, str], _Mention] = {}
        self._edges: dict[tuple[str, str, str, str, str], dict[str, Any]] = {}
        self._other: list[tuple[str, str, str, dict[str, Any]]] = []
        self._text = ""

    def mentions(self, value: dict[str, Any], text: str, start: int, end: int) -> int:
        """Take in a reply; how many of its items have no ground in the text."""
        self._text = text
        window, screened = text[start:end], 0
        said = names.normal(window)
        ends: dict[str, tuple[str, str]] = {}
        for item in value["mentions"]:
            name = names.display(item["name"])[:NAME_CHARS_MAX]
            aliases = [a for raw in item["aliases"] if (a := names.display(raw)[:NAME_CHARS_MAX]) and a != name]
            grounded = [a for a in (name, *aliases) if a and names.occurs(a, said)]
            if not names.usable(name) or not grounded:
                screened += 1
                continue
            held = self._held.setdefault((item["type"], names.normal(name)), _Mention(name))
            held.aliases.update(dict.fromkeys(a for a in grounded if a != held.name))
            note = " ".join(item["mention"].split())
            if note and note not in held.texts:
                held.texts.append(note)
            held.spans += _located(window, start, item["quote"], grounded)
            for column, cell in (item.get("values") or {}).items():
                if cell is not None:
                    held.values[column] = cell
            for spelling in (name, *aliases):
                ends.setdefault(names.normal(spelling), (item["type"], held.name))
        for item in value.get("edges", ()):
            screened += not self._edge(item, ends, window, start)
        return screened

    def _edge(self, item: dict[str, Any], ends: dict[str, tuple[str, str]], window: str, start: int) -> bool:
        spec = next(e for e in self._config.edge_types if e.name == item["edge"])
        left = self._end(ends, item["from"], spec.from_type)
        right = self._end(ends, item["to"], spec.to_type)
        if left is None or right is None or left == right:
            return False
        attributes = {k: v for k, v in (item.get("attributes") or {}).items() if v is not None and k in spec.attributes}
        spans = _located(window, start, item["quote"], ())
        quote = " ".join(item["quote"].split())[: self._config.mention_max_chars] if spans else ""
        data = {"from": list(left), "to": list(right), "attributes": attributes, "text": quote, "spans": spans}
        self._edges.setdefault((spec.name, *left, *right), data)
        return True

    def _end(self, ends: dict[str, tuple[str, str]], name: str, type_: str) -> tuple[str, str] | None:
        """The mention that an end names; it must be of the type that the edge asks for."""
        found = ends.get(names.normal(name))
        if found is not None and found[0] == type_:
            return found
        held = self._held.get((type_, names.normal(name)))
        return (type_, held.name) if held is not None else None

    def document(
        self, type_: ArtifactType, document: ParsedDocument, parts: list[tuple[int, int, dict[str, Any]]]
    ) -> int:
        """The document's own artifact; 1 where it holds nothing that could be kept."""
        body = "\n\n".join(text for _, _, value in parts if (text := value["body"].strip()))
        title = next((t for _, _, value in parts if (t := names.display(value["title"]))), "") or document.title
        title = (title or self._path.rsplit("/", 1)[-1])[:NAME_CHARS_MAX]
        if not body:
            return 1
        spans = [[parts[0][0], parts[-1][1]]]
        self._other.append(("document", type_.name, title, {"title": title, "body": body, "spans": spans}))
        return 0

    def table(self, type_: ArtifactType, parts: list[tuple[int, int, dict[str, Any]]]) -> None:
        """Rows of a table."""
        for start, end, value in parts:
            for row in value["rows"]:
                if any(cell is not None for cell in row.values()):
                    key = row_key(row, type_.natural_key)
                    self._other.append(("row", type_.name, key, {"row": row, "spans": [[start, end]]}))

    def glossary(self, type_: ArtifactType, document: ParsedDocument) -> None:
        """Terms under the headings that the type names, word for word."""
        for name, start, end in glossary_terms(document, type_.sections):
            text = document.text[start:end].strip()
            self._other.append(("glossary", type_.name, name[:NAME_CHARS_MAX], {"text": text, "spans": [[start, end]]}))

    def rows(self) -> list[StatementRow]:
        """The statements, numbered; of equal ones each has an ordinal in its id."""
        limit, out = self._config.mention_max_chars, []
        entries: list[tuple[str, str, str, dict[str, Any]]] = []
        for (type_, _), m in self._held.items():
            spans = _merged(m.spans)
            company = sorted({bucket(o.name) for o in self._held.values() if o is not m})
            data = {
                "text": _shortened(" ".join(m.texts), limit),
                "aliases": list(m.aliases)[:ALIASES_MAX],
                "spans": spans,
                "context": _context(self._text, spans, (m.name, *m.aliases)),
                "company": company[:COMPANY_MAX],
                "values": m.values,
            }
            entries.append(("mention", type_, m.name, data))
        entries += [("edge", key[0], data["from"][1], data) for key, data in self._edges.items()]
        entries += self._other
        entries += self._with_document()
        seen: Counter[str] = Counter()
        for seq, (kind, type_, name, data) in enumerate(entries):
            if self._part:
                data["part"] = self._part
            text = canonical_json(data)
            digest = fingerprint("statement", self._path, kind, type_, name, text)
            out.append(StatementRow(f"{digest[:32]}.{seen[digest]}", self._path, kind, type_, name, seq, text, added=0))
            seen[digest] += 1
        return out

    def _with_document(self) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        """Edges that the manifest wants between the document's own artifact and what the document mentions."""
        scopes = {t.name: t.scope for t in self._config.artifact_types}
        for edge in self._config.edge_types:
            both = scopes[edge.from_type], scopes[edge.to_type]
            if both == ("corpus", "corpus"):
                continue
            lefts = self._ends(edge.from_type, scopes)
            rights = self._ends(edge.to_type, scopes)
            for left in lefts:
                for right in rights:
                    if left != right:
                        data = {"from": left, "to": right, "attributes": {}, "text": "", "spans": []}
                        yield "edge", edge.name, left[1], data

    def _ends(self, type_: str, scopes: Mapping[str, str]) -> list[list[str]]:
        if scopes[type_] == "document":
            return [[t, name] for kind, t, name, _ in self._other if t == type_ and kind in ("document", "row")]
        return [[t, m.name] for (t, _), m in self._held.items() if t == type_]


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0] + "…"


def _located(window: str, start: int, quote: str, spellings: Iterable[str]) -> list[tuple[int, int]]:
    """Where a quote stands in a window, blanks aside; else the first place of one of the spellings."""
    words = quote.split()
    if words:
        pattern = r"\s+".join(map(re.escape, words[:100]))
        hit = re.search(pattern, window)
        if hit is not None:
            return [(start + hit.start(), start + hit.end())]
    for spelling in spellings:
        hit = re.search(r"\s+".join(map(re.escape, spelling.split())), window, re.IGNORECASE)
        if hit is not None:
            return [(start + hit.start(), start + hit.end())]
    return []


def _merged(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    out: list[list[int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out[:SPANS_MAX]


def _context(text: str, spans: list[list[int]], spellings: Iterable[str]) -> list[str]:
    """Words around a subject, the most frequent first, without its own."""
    own = {word for spelling in spellings for word in names.words(spelling)}
    counted: Counter[str] = Counter()
    for start, end in spans:
        counted.update(names.telling_words(text[max(start - CONTEXT_CHARS, 0) : end + CONTEXT_CHARS]))
    ranked = sorted((w for w in counted if w not in own), key=lambda w: (-counted[w], w))
    return ranked[:CONTEXT_WORDS]
