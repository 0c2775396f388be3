"""A subject's statements to its artifact: the notes that a model is given, what comes of its answer. Pure but for asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manifests.model import ArtifactsConfig, ArtifactType
from pipeline.artifacts import render
from pipeline.artifacts.asking import CUT_OFF, Asker
from pipeline.artifacts.leg import REDUCE_VERSION, data
from pipeline.artifacts.statements import type_spec
from pipeline.artifacts.subjects import Subject
from pipeline.artifacts.tasks import prompts_fingerprint
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.models import ReduceTask
from pipeline.rows import ArtifactRow, StatementRow
from pipeline.types import LogicalId

SPANS_EACH = 5
CONFLICTS_MAX = 20
VERBATIM = "verbatim"
"""Stands for the model of what no model has written."""


def basis(subject: Subject, type_: ArtifactType, config: ArtifactsConfig, model: str) -> str:
    """Everything that the artifact is made of, by which an answer is known to be still good."""
    caps = (config.max_tokens, config.max_mentions_per_artifact, config.mention_context_chars)
    configuration = canonical_json([type_.model_dump(mode="json", exclude={"icon"}), caps])
    return fingerprint("artifact", subject.row.membership, configuration, model, prompts_fingerprint(), REDUCE_VERSION)


def make(
    subject: Subject, type_: ArtifactType, config: ArtifactsConfig, asker: Asker, based: str
) -> ArtifactRow | None:
    """The artifact; None where nothing is left that says anything.

    Raises:
        RejectedInput: the model gave nothing usable.
        Unavailable: it didn't answer.
    """
    kind = subject.statements[0].kind
    used = _used(subject.statements, config) if kind in ("mention", "glossary") else subject.statements
    model = asker.model.model(asker.tier) if kind != "glossary" else VERBATIM
    value: dict[str, Any] = {"aliases": data_of(subject)["aliases"], "sources": _sources(used), "model": model}
    if kind == "row":
        value["row"], value["conflicts"] = _upserted(used, type_)
    elif kind == "document":
        value["body"] = data(used[-1])["body"]
    elif kind == "glossary":
        value["body"] = "\n\n".join(f"> {data(s)['text']} [{i}]".replace("\n", "\n> ") for i, s in enumerate(used, 1))
    else:
        value |= _reduced(subject, used, type_, asker)
    if not (value.get("body", "").strip() or any(cell is not None for cell in value.get("row", {}).values())):
        return None
    row = subject.row
    file = "" if type_.format == "sqlite" else render.file_path(type_.name, row.key)
    return ArtifactRow(
        LogicalId(row.id), type_.name, row.name, type_.scope, type_.format, based, row.membership, file,
        canonical_json(value), row.added,
    )  # fmt: skip


def data_of(subject: Subject) -> dict[str, Any]:
    """The subject row's own values."""
    return data(subject.row)


def _used(statements: Sequence[StatementRow], config: ArtifactsConfig) -> tuple[StatementRow, ...]:
    """The mentions that are read: of each source the first one before any second, up to both caps."""
    seen: dict[str, int] = {}
    ranked = []
    for s in statements:
        seen[s.path] = seen.get(s.path, 0) + 1
        ranked.append((seen[s.path], s.path, s.seq, s))
    chosen: list[StatementRow] = []
    chars = 0
    for _, _, _, s in sorted(ranked, key=lambda r: r[:3])[: config.max_mentions_per_artifact]:
        chars += len(data(s)["text"])
        if chosen and chars > config.mention_context_chars:
            break
        chosen.append(s)
    return tuple(chosen)


def _sources(used: Sequence[StatementRow]) -> list[dict[str, Any]]:
    out = []
    for statement in used:
        held = data(statement)
        source: dict[str, Any] = {"path": statement.path, "spans": held["spans"][:SPANS_EACH]}
        if held.get("part"):
            source["part"] = held["part"]
        out.append(source)
    return out


def _upserted(statements: Sequence[StatementRow], type_: ArtifactType) -> tuple[dict[str, Any], list[list[Any]]]:
    """Rows under one natural key, the later one's values over the earlier one's; and the values that gave way."""
    row: dict[str, Any] = {column.name: None for column in type_.columns}
    gave_way = []
    for statement in statements:
        for column, cell in data(statement)["row"].items():
            if column not in row or cell is None:
                continue
            if row[column] not in (None, cell):
                gave_way.append([column, row[column], statement.path])
            row[column] = cell
    return row, gave_way[:CONFLICTS_MAX]


def _reduced(subject: Subject, used: Sequence[StatementRow], type_: ArtifactType, asker: Asker) -> Mapping[str, Any]:
    spec = type_spec(type_)
    notes = tuple(data(s)["text"] for s in used)
    values = tuple(data(s)["values"] for s in used) if spec.columns else ()
    aliases = tuple(data_of(subject)["aliases"])[:20]
    answer = _ask(ReduceTask(subject.row.name, aliases, notes, spec, values), asker)
    if spec.columns:
        return {"row": answer["row"]}
    return {"body": answer["body"]}


def _ask(task: ReduceTask, asker: Asker) -> dict[str, Any]:
    """The answer; one that was cut off is asked for again with half of the notes each, and put together."""
    try:
        return asker.ask(task).value
    except RejectedInput as error:
        if error.code not in (CUT_OFF, "too_long") or len(task.notes) < 2 or task.values:  # noqa: PLR2004 - to halve
            raise
    middle = len(task.notes) // 2
    first = _ask(ReduceTask(task.name, task.aliases, task.notes[:middle], task.type), asker)
    second = _ask(ReduceTask(task.name, task.aliases, task.notes[middle:], task.type), asker)
    return {"body": f"{first['body']}\n\n{_renumbered(second['body'], middle)}"}


def _renumbered(body: str, by: int) -> str:
    """Citations of the second half's notes by their numbers among all."""
    out, at = [], 0
    while (start := body.find("[", at)) >= 0:
        end = body.find("]", start)
        number = body[start + 1 : end] if end > start else ""
        if number.isascii() and number.isdigit() and len(number) < 5:  # noqa: PLR2004 - a citation, no year in brackets
            out += [body[at:start], f"[{int(number) + by}]"]
            at = end + 1
        else:
            out.append(body[at : start + 1])
            at = start + 1
    return "".join([*out, body[at:]])
