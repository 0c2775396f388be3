"""The process inside `archive_sandbox`: lists one archive and hands out its bytes, then ends.

The archive is standard input, an open file: nothing can be opened here, so nothing else can be read. Standard output
takes frames of one byte for the kind, 4 bytes of length (big-endian) and a body: + (ready), K (what the file is), M (an
entry, JSON), D (a piece of the last entry's bytes), Z (all was read, checksums were right), R (JSON [code, message]: it
can't be read).
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO

from pipeline.adapters import archive_tar, archive_zip
from pipeline.archives import NAME_BYTES_READ, Entry, ImportLimits
from pipeline.errors import RejectedInput

HEAD = struct.Struct(">cI")
READY, KIND, ENTRY, PIECE, DONE, REJECTED = b"+", b"K", b"M", b"D", b"Z", b"R"

_MESSAGE_CHARS = 500


def main(limits: str) -> None:
    """Serve one archive. `limits` is an `ImportLimits` as JSON."""
    bounds = ImportLimits(**json.loads(limits))
    source, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _confine(bounds)
    for kind, body in frames(source, bounds):
        signal.alarm(0)  # a parent that takes its time is none of our business
        answers.write(HEAD.pack(kind, len(body)))
        answers.write(body)
        answers.flush()
        signal.alarm(int(bounds.wall_seconds) + 1)


def frames(source: BinaryIO, limits: ImportLimits) -> Iterator[tuple[bytes, bytes]]:
    """What is sent, whatever the archive is like. Here every exception is the archive's fault."""
    yield READY, b""
    try:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        is_zip = source.read(2) == b"PK"
        source.seek(0)
        kind, events = (archive_zip if is_zip else archive_tar).read(source, size, limits)
        yield KIND, kind.encode("ascii")
        for event in events:
            yield (ENTRY, _described(event)) if isinstance(event, Entry) else (PIECE, event)
        yield DONE, b""
    except RejectedInput as error:
        yield REJECTED, json.dumps([error.code, error.message[:_MESSAGE_CHARS]]).encode("ascii")
    except MemoryError:
        yield REJECTED, b'["archive_memory", "reading it needs more memory than an archive may take"]'
    except Exception as error:  # noqa: BLE001  # the libraries promise nothing about what damage raises
        told = f"it is damaged: {type(error).__name__}: {error}"[:_MESSAGE_CHARS]
        yield REJECTED, json.dumps(["archive_corrupt", told]).encode("ascii")


def _described(entry: Entry) -> bytes:
    name = entry.name[:NAME_BYTES_READ].decode("latin-1")
    return json.dumps([name, entry.kind, entry.reason, entry.packed_bytes, entry.modified]).encode("ascii")


def _confine(limits: ImportLimits) -> None:
    for codec in ("cp437", "latin-1", "utf-8", "ascii"):  # found on disk at their first use, which is then too late
        "".encode(codec)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds + 1, limits.cpu_seconds + 2))
    if sys.platform != "darwin":  # where address space can't be limited
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(limits.wall_seconds) + 1)
