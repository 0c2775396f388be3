"""`Parser` in child processes with limits of memory, time and output, since documents are hostile and parsers are native.

A child is warm: it serves many documents, one at a time, and is replaced after a number of them or after any mishap.
It gets no environment, no files to write and no core dumps; what it sends back is checked (`parse.wire`).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Condition
from typing import IO

import pipeline
from pipeline.errors import RejectedInput, Unavailable
from pipeline.parse import identity, wire
from pipeline.parse.languages import GRAMMARS, WITHOUT_GRAMMAR, language
from pipeline.types import ParsedDocument

_BOOT = "import sys, importlib; sys.path += sys.argv[1].split(chr(0x1f)); importlib.import_module(sys.argv[2]).main(sys.argv[3])"
"""What a child runs: `-I` keeps the environment and the working folder out of its path, so the way to the package is
passed in."""
_LENGTH_BYTES = 4
_NONCE_BYTES = 8
_PIPE_BYTES = 1 << 20
_ALARM_SPARE_SECONDS = 10
"""The child's own alarm comes this much after the parent's deadline; it matters only when the parent is dead."""
_UNSOUND = frozenset(("parse_crashed", "parse_memory", "parse_output", "parse_timeout"))
"""Refusals after which a child isn't used again."""
_NO_GRAMMAR = frozenset(("parse_crashed", "parse_memory", "parse_timeout"))
"""Refusals of code after which it's read without its grammar."""
_END_SECONDS = 5.0
"""How long an ended child may take to be gone before it's killed."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Bounds for one document, and for one child."""

    wall_seconds: float = 120.0
    """From sending the bytes to the whole answer; after it the child is killed (`parse_timeout`)."""
    cpu_seconds: int = 120
    """Processor time for one document (`parse_timeout`)."""
    memory_bytes: int = 2 << 30
    """Address space of a child, libraries included (`parse_memory`)."""
    output_bytes_max: int = 256 << 20
    """The answer's size (`parse_output`)."""
    documents_per_child: int = 500
    """A child is replaced after so many, which bounds what leaks may add up to."""
    start_seconds: float = 60.0
    """Until a new child says that it's ready (`Unavailable`)."""


class SandboxedParser:
    """`ports.Parser`. Thread-safe: at most `workers` documents are parsed at once, further calls wait their turn."""

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        workers: int = 1,
        module: str = "pipeline.adapters.parser_child",
        module_root: Path | None = None,
    ) -> None:
        """Start nothing yet; children start when they are needed.

        Args:
            limits: bounds; the defaults if None.
            workers: children at most.
            module: what a child runs, a module with `main(limits)`.
            module_root: folder to import `module` from, if not the package's own.
        """
        self.limits = limits or SandboxLimits()
        self._workers = workers
        self._module = module
        self._roots = [str(Path(pipeline.__file__).parent.parent), *([str(module_root)] if module_root else [])]
        self._turn = Condition()
        self._idle: list[_Child] = []
        self._busy = 0
        self._closed = False

    @cached_property
    def identity(self) -> str:
        """See `ports.Parser.identity`. Asks for the versions of some thirty packages, so only where it's needed."""
        return identity()

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        """See `ports.Parser.parse`.

        Further codes: `parse_timeout`, `parse_memory`, `parse_crashed`, `parse_output`, `parse_failed`.

        Code that its grammar can't take is cut by its lines instead, with a warning: broken code can cost a grammar
        time without end, and it's still text.
        """
        try:
            return self._parse(data, name)
        except RejectedInput as error:
            spoken = language(data, name)
            if error.code not in _NO_GRAMMAR or spoken not in GRAMMARS:
                raise
            try:
                document = self._parse(data, f"{name}.{WITHOUT_GRAMMAR}")
            except RejectedInput:
                raise error from None
            told = f"cut by its lines, as its syntax could not be read: {error.message}"
            return replace(document, language=spoken, warnings=(*document.warnings, told))

    def _parse(self, data: bytes, name: str) -> ParsedDocument:
        try:
            return self._parse_once(data, name, fresh=False)
        except _DiedWarm:
            # An earlier document, or the system, may be to blame. Alone in a new child there is no doubt.
            return self._parse_once(data, name, fresh=True)

    def _parse_once(self, data: bytes, name: str, *, fresh: bool) -> ParsedDocument:
        child = self._take(fresh=fresh)
        sound = False
        try:
            answer = child.ask(data, name)
            found = _document(answer, name) if answer[:1] == b"D" else _refusal(answer, name)
            sound = answer[:1] != b"X" and not (isinstance(found, RejectedInput) and found.code in _UNSOUND)
        finally:
            if not sound:
                child.kill()
            self._give_back(child if sound else None)
        if isinstance(found, RejectedInput):
            raise found
        return found

    def last_job(self) -> str:
        """Nothing is sent anywhere."""
        return ""

    def close(self) -> None:
        """End the children. Documents under way are finished first by their callers; new calls are refused."""
        with self._turn:
            self._closed = True
            idle, self._idle = self._idle, []
            self._turn.notify_all()
        for child in idle:
            child.end()

    def _take(self, *, fresh: bool) -> _Child:
        """A child for this call alone; a new one if `fresh`."""
        with self._turn:
            while self._busy >= self._workers and not self._closed:
                self._turn.wait()
            if self._closed:
                raise Unavailable("parser_closed", "the parser has been closed")
            self._busy += 1
            while self._idle:
                child = self._idle.pop()
                if child.is_usable() and not fresh:
                    return child
                child.kill()
                if fresh:
                    break
        try:
            return _Child(self._roots, self._module, self.limits)
        except BaseException:
            self._give_back(None)
            raise

    def _give_back(self, child: _Child | None) -> None:
        worn = child is not None and (self._closed or child.served >= self.limits.documents_per_child)
        with self._turn:
            self._busy -= 1
            if child is not None and not worn:
                self._idle.append(child)
            self._turn.notify()
        if child is not None and worn:
            child.end()


def _document(answer: bytes, name: str) -> ParsedDocument:
    try:
        return wire.decode(answer[1:])
    except ValueError as error:
        raise RejectedInput("parse_crashed", f"parsing {name} gave no valid document: {error}") from error


def _refusal(answer: bytes, name: str) -> RejectedInput:
    """The refusal in an answer; its code is the child's own, but for those that only the parent can know."""
    try:
        code, message, remedy = (str(part) for part in json.loads(answer[1:]))
    except (ValueError, TypeError, RecursionError) as error:
        return RejectedInput("parse_crashed", f"parsing {name} gave no valid answer: {error}")
    return RejectedInput(code, message, remedy=remedy)


class _Child:
    """One process and its pipes."""

    def __init__(self, roots: list[str], module: str, limits: SandboxLimits) -> None:
        self.limits = limits
        self.served = 0
        bounds = {
            "memory_bytes": limits.memory_bytes,
            "cpu_seconds": limits.cpu_seconds,
            "alarm_seconds": int(limits.wall_seconds) + _ALARM_SPARE_SECONDS,
        }
        arguments = [sys.executable, "-I", "-c", _BOOT, chr(0x1F).join(roots), module, json.dumps(bounds)]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own arguments
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},  # secrets in the environment are none of a parser's business
                bufsize=0,
            )
        except OSError as error:
            raise Unavailable("parser_start", f"the parsing process can't be started: {error}") from error
        self.stdin, self.stdout = _pipe(self.process.stdin), _pipe(self.process.stdout)
        try:
            ready = self._exchange([], limits.start_seconds)
        except (_Died, _TooLate, _TooLarge) as error:
            self.kill()
            raise Unavailable("parser_start", "the parsing process ended before it was ready") from error
        assert ready == b"+", "a child says that it's ready before anything else"

    def ask(self, data: bytes, name: str) -> bytes:
        """The child's answer for one document."""
        self.served += 1
        nonce = os.urandom(_NONCE_BYTES)
        try:
            answer = self._exchange(_frames(nonce, name.encode("utf-8", "replace"), data), self.limits.wall_seconds)
        except _Died as error:
            cause = self._cause_of_death(name)
            if self.served > 1 and cause.code != "parse_timeout":
                raise _DiedWarm from cause
            raise cause from error
        except _TooLarge as error:
            raise RejectedInput(
                "parse_output", f"{name} became more than {self.limits.output_bytes_max} bytes of text and structure"
            ) from error
        except _TooLate as error:
            raise RejectedInput(
                "parse_timeout", f"parsing {name} took more than {self.limits.wall_seconds:g} s"
            ) from error
        if answer.startswith(nonce):
            return answer[_NONCE_BYTES:]
        # Left over from an earlier document: this one hasn't been answered, and the child has lost its way.
        if self.served > 1:
            raise _DiedWarm
        raise RejectedInput("parse_crashed", f"parsing {name} gave an answer to another question")

    def _exchange(self, frames: list[bytes], seconds: float) -> bytes:
        """Send frames and read one, with both pipes open: a child may answer, or die, before it has read everything."""
        deadline = time.monotonic() + seconds
        outgoing = [memoryview(frame) for frame in frames if frame]
        incoming = bytearray()
        size = -1
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            if outgoing:
                selector.register(self.stdin, selectors.EVENT_WRITE)
            while size < 0 or len(incoming) < _LENGTH_BYTES + size:
                left = deadline - time.monotonic()
                events = selector.select(left) if left > 0 else []
                if not events:
                    raise _TooLate
                for key, _ in events:
                    if key.fd == self.stdin.fileno():
                        self._send(outgoing)
                        if not outgoing:
                            selector.unregister(self.stdin)
                    else:
                        self._receive(incoming)
                if size < 0 and len(incoming) >= _LENGTH_BYTES:
                    size = int.from_bytes(incoming[:_LENGTH_BYTES], "big")
                    if size > self.limits.output_bytes_max:
                        raise _TooLarge
        return bytes(incoming[_LENGTH_BYTES:])

    def _send(self, outgoing: list[memoryview]) -> None:
        try:
            sent = os.write(self.stdin.fileno(), outgoing[0][:_PIPE_BYTES])
        except BlockingIOError:
            return
        except BrokenPipeError as error:
            raise _Died from error
        outgoing[0] = outgoing[0][sent:]
        if not outgoing[0]:
            outgoing.pop(0)

    def _receive(self, incoming: bytearray) -> None:
        try:
            piece = os.read(self.stdout.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return
        if not piece:
            raise _Died
        incoming += piece

    def _cause_of_death(self, name: str) -> RejectedInput:
        try:
            status = self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            status = 0
        if status in {-signal.SIGXCPU, -signal.SIGALRM}:
            return RejectedInput("parse_timeout", f"parsing {name} took more than {self.limits.cpu_seconds} s of CPU")
        if status == -signal.SIGKILL:
            return RejectedInput("parse_memory", f"parsing {name} was killed, most likely for want of memory")
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return RejectedInput("parse_crashed", f"parsing {name} crashed the parser ({how})")

    def is_usable(self) -> bool:
        """Whether the process is there and silent, as one that waits for a document is."""
        try:
            os.read(self.stdout.fileno(), 1)
        except BlockingIOError:
            return self.process.poll() is None
        return False

    def end(self) -> None:
        """Close the input, at which a healthy child ends; kill one that doesn't."""
        self.stdin.close()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.kill()

    def kill(self) -> None:
        """Make sure that the process is gone and its pipes are closed. May be repeated."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


class _Died(Exception):
    """The child closed its output."""


class _DiedWarm(Exception):
    """The child died, and it had served other documents before."""


class _TooLarge(Exception):
    """The child announced an answer above the limit."""


class _TooLate(Exception):
    """The deadline passed."""


def _frames(*bodies: bytes) -> list[bytes]:
    return [part for body in bodies for part in (len(body).to_bytes(_LENGTH_BYTES, "big"), body)]


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "both ends were asked for"
    os.set_blocking(stream.fileno(), False)
    return stream
