"""backup and restore: a context as one archive, which answers the same in an empty home.

A tar, compressed, in an order that can be read in one pass: what it is; files by their keys; index records of every
readable version; staged sources; the ledger's rows; and its end, without which nothing of it counts. Restoring writes files
and vectors first and the ledger in one transaction, so that a restore that was cut short has restored nothing, and a second
one finds what the first has written.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline import contexts, publish
from pipeline.drafts import blob_key
from pipeline.errors import Conflict, Corruption, RejectedInput, Unavailable
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.types import OPEN, ContextSlug, Namespace, RecordBatch, RecordId, SourcePath, SparseVectors

FORMAT: Final = 1
HEAD, END = "lamina-backup.json", "end.json"
PAGE_ROWS = 500
"""Records in one member."""
MEMBER_ROWS = 20_000
"""Rows of the ledger in one member."""
MEMBER_BYTES_MAX = 512 * 1024 * 1024
"""Of one member: a longer one isn't of ours."""
NAMES: Final = re.compile(
    r"(?:blobs/[0-9a-f]/[0-9a-f]{64}|index/[a-z0-9.-]+/[0-9]{8}\.npz|ledger/[a-z_]+/[0-9]{8}\.jsonl|sources/.+)"
)
SOURCES_MAX_DEPTH = 200

Report = Callable[[str, int], None]


@dataclass(slots=True)
class Held:
    """What an archive holds."""

    context: ContextSlug
    kind: str = ""
    root: str = ""
    live_version: int = 0
    versions: list[int] = field(default_factory=list)
    records: int = 0
    files: int = 0
    sources: int = 0
    rows: int = 0
    bytes: int = 0


def backup(ports: Ports, slug: ContextSlug, target: Path, *, report: Report = lambda _what, _n: None) -> Held:
    """Write the archive. The file appears whole or not at all.

    Args:
        ports: the deployment.
        slug: the context.
        target: the file to be made; not there yet.
        report: told of what was written.

    Raises:
        RejectedInput: no such context, nothing curated, or the file is there.
        Conflict: codes `run_active` and `moved`: the context was changed meanwhile.
        Corruption: the index or the files lack what the ledger lists.
    """
    if target.exists():
        raise RejectedInput("file_exists", f"{target} is there already", remedy="name another file, or move it away")
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
        active = session.runs.active(slug)
        versions = [v.number for v in session.versions.list(slug) if v.readable]
    if active is not None:
        raise Conflict(
            "run_active",
            f"run {active.id} of {slug} is not at its end",
            remedy=f"let it end: lamina explain {active.id}",
        )
    held = Held(slug, context.kind, context.root, context.live_version, versions)
    part = target.with_name(target.name + ".part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=3) as tar:
            _put(tar, HEAD, _head(ports, held))
            _files(ports, held, tar, report)
            _records(ports, held, tar, report)
            if context.kind == "staged":
                _sources(ports, context, held, tar, report)
            _ledger(ports, held, tar, context.epoch, report)
            _put(tar, END, canonical_json({"records": held.records, "files": held.files, "rows": held.rows}).encode())
        held.bytes = part.stat().st_size
        part.rename(target)
    except OSError as error:
        raise Unavailable(
            "not_written", f"{target} can't be written: {error.strerror}", remedy="check space and permissions"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return held


def _head(ports: Ports, held: Held) -> bytes:
    with ports.ledger.read() as session:
        schema = session.dump.schema
    return canonical_json(
        {
            "format": FORMAT, "schema": schema, "context": held.context, "kind": held.kind, "root": held.root,
            "live_version": held.live_version, "versions": held.versions, "made_at": ports.clock.now(),
        }
    ).encode()  # fmt: skip


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _files(ports: Ports, held: Held, tar: tarfile.TarFile, report: Report) -> None:
    done: set[str] = set()
    for version in held.versions:
        after = ""
        while True:
            with ports.ledger.read() as session:
                page = session.files.page(held.context, version, after, PAGE_ROWS)
            for file in page:
                if file.blob in done:
                    continue
                data = ports.objects(held.context).get(file.blob)
                if blob_key(data) != file.blob:
                    raise Corruption(
                        "file_spoilt",
                        f"{file.path} isn't what its key says",
                        remedy=f"lamina fsck {held.context} --repair",
                    )
                _put(tar, file.blob, data)
                done.add(file.blob)
                held.files += 1
                report("files", held.files)
            if len(page) < PAGE_ROWS:
                break
            after = page[-1].path


def _records(ports: Ports, held: Held, tar: tarfile.TarFile, report: Report) -> None:
    seen: list[int] = []
    number = 0
    for version in sorted(held.versions, key=lambda v: v != held.live_version):
        after = ""
        while True:
            with ports.ledger.read() as session:
                page = session.records.page_at(held.context, version, after, PAGE_ROWS)
            rows = [r for r in page if not any(r.added <= old < r.removed for old in seen)]
            for namespace in sorted({row.namespace for row in rows}):
                ids = [row.id for row in rows if row.namespace == namespace]
                number += 1
                _put(tar, f"index/{namespace}/{number:08}.npz", _packed(ports, held.context, namespace, ids))
                held.records += len(ids)
                report("records", held.records)
            if len(page) < PAGE_ROWS:
                break
            after = page[-1].id
        seen.append(version)


def _packed(ports: Ports, slug: ContextSlug, namespace: Namespace, ids: list[RecordId]) -> bytes:
    stored = ports.index(slug).fetch(namespace, ids, vectors=True, metadata=True)
    if len(stored.ids) != len(ids):
        raise Corruption(
            "record_missing",
            f"{len(ids) - len(stored.ids)} records of {slug} are listed but the index doesn't hold them",
            remedy=f"lamina fsck {slug} --repair",
        )
    told = canonical_json([dict(metadata) for metadata in stored.metadata]).encode()
    out = io.BytesIO()
    np.savez(
        out, ids=np.array(stored.ids), added=np.array(stored.added, np.int64), removed=np.array(stored.removed, np.int64),
        dense=stored.dense, indptr=stored.sparse.indptr, indices=stored.sparse.indices, values=stored.sparse.values,
        metadata=np.frombuffer(told, np.uint8),
    )  # fmt: skip
    return out.getvalue()


def _sources(ports: Ports, context: Any, held: Held, tar: tarfile.TarFile, report: Report) -> None:
    tree = ports.sources(context)
    for stat in tree.walk():
        data, _ = tree.read(stat.path, ports.limits.source_bytes)
        _put(tar, f"sources/{stat.path}", data)
        held.sources += 1
        report("sources", held.sources)


def _ledger(ports: Ports, held: Held, tar: tarfile.TarFile, epoch: int, report: Report) -> None:
    """Every table from one snapshot, and only if it is the one that files and records were taken by."""
    with ports.ledger.read() as session:
        now = publish.require_context(session, held.context)
        readable = [v.number for v in session.versions.list(held.context) if v.readable]
        if now.epoch != epoch or readable != held.versions or session.runs.active(held.context) is not None:
            raise Conflict("moved", f"{held.context} was changed while it was backed up", remedy="run it again")
        for table in session.dump.tables():
            head = canonical_json(list(session.dump.columns(table))).encode()
            rows = session.dump.rows(held.context, table)
            part = 0
            while lines := [canonical_json(list(row)).encode() for row in islice(rows, MEMBER_ROWS)]:
                part += 1
                _put(tar, f"ledger/{table}/{part:08}.jsonl", b"\n".join([head, *lines]))
                held.rows += len(lines)
                report("rows", held.rows)


# ---- restore


def restore(
    ports: Ports,
    source: Path,
    *,
    put_source: Callable[[ContextSlug, SourcePath, bytes], None],
    report: Report = lambda _what, _n: None,
) -> Held:
    """Read an archive into a deployment that has no such context.

    Args:
        ports: the deployment.
        source: the archive.
        put_source: puts a staged source where that context's staged files stand.
        report: told of what was read.

    Raises:
        RejectedInput: the file is no backup, is cut short, is of a newer Lamina, or the context is there already.
    """
    try:
        with gzip.open(source) as raw, tarfile.open(fileobj=raw, mode="r|") as tar:
            members = _members(tar, raw)
            held = _opened(ports, next(members, ("", b"")))
            return _restored(ports, held, members, put_source, report)
    except (tarfile.TarError, EOFError, OSError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise _bad(f"{source} can't be read as a backup: {type(error).__name__}") from error


def _opened(ports: Ports, head: tuple[str, bytes]) -> Held:
    name, data = head
    if name != HEAD:
        raise _bad("the file isn't one of Lamina's backups")
    told = json.loads(data)
    contexts.checked_slug(told["context"])
    with ports.ledger.read() as session:
        schema, there = session.dump.schema, session.contexts.get(ContextSlug(told["context"]))
    if told["format"] != FORMAT or told["schema"] > schema:
        raise _bad("it was made by a newer Lamina", "upgrade Lamina, then restore")
    if there is not None:
        raise RejectedInput(
            "slug_taken",
            f"there is a context {told['context']} already",
            remedy=f"restore into another home (LAMINA_HOME), or delete it first: lamina delete {told['context']}",
        )
    return Held(ContextSlug(told["context"]), told["kind"], told["root"], told["live_version"], list(told["versions"]))


def _restored(
    ports: Ports,
    held: Held,
    members: Iterator[tuple[str, bytes]],
    put_source: Callable[[ContextSlug, SourcePath, bytes], None],
    report: Report,
) -> Held:
    for name, data in members:
        if name.startswith("blobs/"):
            if blob_key(data) != name:
                raise _bad(f"the file {name} isn't what its key says")
            ports.objects(held.context).put_many({name: data})
            held.files += 1
            report("files", held.files)
        elif name.startswith("index/"):
            held.records += _unpacked(ports, held.context, Namespace(name.split("/")[1]), data)
            report("records", held.records)
        elif name.startswith("sources/"):
            put_source(held.context, SourcePath(name.removeprefix("sources/")), data)
            held.sources += 1
            report("sources", held.sources)
        else:
            with ports.ledger.transaction("restore", held.context) as session:
                _rows(session, held, (name, data), members, report)
            publish.refresh_view(ports, held.context)
            return held
    raise _bad("it is cut short: its ledger is missing")


def _rows(
    session: Session, held: Held, first: tuple[str, bytes], members: Iterator[tuple[str, bytes]], report: Report
) -> None:
    """The ledger's tables up to the end of the archive; anything amiss takes all of them back."""
    name, data = first
    while name.startswith("ledger/"):
        table = name.split("/")[1]
        lines = data.splitlines()
        columns = json.loads(lines[0])
        for at in range(1, len(lines), PAGE_ROWS):
            rows = [json.loads(line) for line in lines[at : at + PAGE_ROWS]]
            if not all(len(row) == len(columns) and all(_plain(cell) for cell in row) for row in rows):
                raise _bad(f"a row of {table} isn't one")
            session.dump.insert(table, columns, rows)
            held.rows += len(rows)
        report("rows", held.rows)
        name, data = next(members, ("", b""))
    told = json.loads(data) if name == END else None
    if told is None or (told["records"], told["files"], told["rows"]) != (held.records, held.files, held.rows):
        raise _bad("it is cut short, or something in it is missing")
    if next(members, None) is not None:  # also reads to the end, which tells whether anything was cut off
        raise _bad("something stands behind its end")
    context = session.contexts.get(held.context)
    if context is None or context.live_version != held.live_version:
        raise _bad("its ledger is another context's")


def _plain(cell: object) -> bool:
    return cell is None or (isinstance(cell, str | int | float) and not isinstance(cell, bool))


def _unpacked(ports: Ports, slug: ContextSlug, namespace: Namespace, data: bytes) -> int:
    if not namespace.startswith(f"{slug}.g"):
        raise _bad(f"it holds records of {namespace}")
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        sparse = SparseVectors(held["indptr"], held["indices"], held["values"])
        ids, added, removed = held["ids"].tolist(), held["added"].tolist(), held["removed"].tolist()
        dense = np.ascontiguousarray(held["dense"], np.float32)
        metadata = [
            {key: tuple(v) if isinstance(v, list) else v for key, v in one.items()}
            for one in json.loads(held["metadata"].tobytes())
        ]
    index = ports.index(slug)
    for version in sorted(set(added)):
        chosen = [at for at, one in enumerate(added) if one == version]
        batch = RecordBatch(
            namespace,
            version,
            tuple(RecordId(ids[at]) for at in chosen),
            np.ascontiguousarray(dense[chosen]),
            _rows_of(sparse, chosen),
            tuple(metadata[at] for at in chosen),
        )
        index.upsert(batch)
    for version in sorted({one for one in removed if one != OPEN}):
        index.stamp(namespace, [RecordId(ids[at]) for at, one in enumerate(removed) if one == version], version)
    return len(ids)


def _rows_of(sparse: SparseVectors, chosen: list[int]) -> SparseVectors:
    rows = [sparse.row(at) for at in chosen]
    return SparseVectors(
        np.concatenate(([0], np.cumsum([len(indices) for indices, _ in rows]))).astype(np.int64),
        np.concatenate([np.zeros(0, np.uint32), *(indices for indices, _ in rows)]),
        np.concatenate([np.zeros(0, np.float32), *(values for _, values in rows)]),
    )


def _members(tar: tarfile.TarFile, raw: gzip.GzipFile) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each member; anything that isn't a plain file of a name of ours is refused."""
    for member in tar:
        known = member.name in (HEAD, END) or NAMES.fullmatch(member.name) is not None
        parts = member.name.split("/")
        if not member.isreg() or not known or ".." in parts or "" in parts or len(parts) > SOURCES_MAX_DEPTH:
            raise _bad(f"it holds {member.name[:100]!r}, which no backup of Lamina does")
        if member.size > MEMBER_BYTES_MAX:
            raise _bad(f"{member.name[:100]} has {member.size} bytes")
        file = tar.extractfile(member)
        assert file is not None, "a regular member has bytes"
        yield member.name, file.read()
    while raw.read(1 << 20):
        pass  # to the checksum behind the last byte


def _bad(problem: str, remedy: str = "take a whole archive that `lamina backup` has made") -> RejectedInput:
    return RejectedInput("bad_backup", problem, remedy=remedy)
