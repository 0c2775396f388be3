"""The process inside the sandbox: reads requests on standard input, answers on standard output, ends at end of input.

Frames are 4 bytes of length (big-endian) and a body. A request is three frames: a nonce, the name, the bytes. An
answer is one frame: the nonce, then b'D' and a document (`parse.wire`), b'R' and JSON [code, message, remedy], or b'X'
and the same from a process that ends thereafter. b'+' alone says that the process is ready. The child trusts its
parent, never the other way round.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes, wire
from pipeline.types import ParsedDocument

LENGTH = struct.Struct(">I")
READY, DOCUMENT, REJECTED, LAST = b"+", b"D", b"R", b"X"


def main(limits: str) -> None:
    """Serve with the product's parsers."""
    serve(parse_bytes, limits)


def serve(parse: Callable[[bytes, str], ParsedDocument], limits: str) -> None:
    """Answer requests until the input ends.

    Args:
        parse: what makes a document of bytes and a name.
        limits: JSON with `memory_bytes`, `cpu_seconds` and `alarm_seconds`, the last two for each document.
    """
    bounds = json.loads(limits)
    requests, answers = _private_streams()
    _confine(bounds["memory_bytes"])
    _write(answers, READY)
    while (nonce := _read(requests)) is not None:
        name, data = _read(requests), _read(requests)
        if name is None or data is None:
            return
        _allow(bounds["cpu_seconds"], bounds["alarm_seconds"])
        answer = _answer(parse, data, name.decode("utf-8", "replace"))
        del data
        _write(answers, nonce + answer)
        if answer.startswith(LAST):
            return


def _answer(parse: Callable[[bytes, str], ParsedDocument], data: bytes, name: str) -> bytes:
    try:
        return DOCUMENT + wire.encode(parse(data, name))
    except RejectedInput as error:
        return _rejected(REJECTED, error.code, error.message, error.remedy)
    except MemoryError:
        return _rejected(LAST, "parse_memory", f"{name} needs more memory than a document may take")
    except RecursionError:
        return _rejected(REJECTED, "parse_failed", f"{name} is nested too deeply")
    except BaseException as error:  # noqa: BLE001 - panics of native libraries aren't Exceptions; the parent decides
        return _rejected(LAST, "parse_failed", f"{name} can't be parsed: {type(error).__name__}: {error}"[:500])


def _rejected(kind: bytes, code: str, message: str, remedy: str = "") -> bytes:
    return kind + json.dumps([code, message, remedy]).encode("ascii")


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output under other numbers, so that nothing a library prints becomes an answer."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return requests, answers


def _confine(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform != "darwin":  # where address space can't be limited
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _allow(cpu_seconds: int, alarm_seconds: int) -> None:
    """Time for one more document. Both signals end the process, in native code too, should the parent be gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + cpu_seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(alarm_seconds)


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    body = stream.read(size)
    return body if len(body) == size else None


def _write(stream: BinaryIO, body: bytes) -> None:
    stream.write(LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()
