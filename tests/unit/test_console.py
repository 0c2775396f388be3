"""The printer: what is safe to print, how numbers read, and which stream gets what."""

from __future__ import annotations

import io
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.console import (
    Console,
    amount,
    bytes_text,
    counted,
    duration,
    finished_line,
    moment,
    printable,
    printable_block,
    progress_line,
)
from pipeline.errors import Unavailable
from pipeline.progress import Progress, StageProgress

STEERING = {
    chr(c) for c in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


class Terminal(io.StringIO):
    """A stream with an encoding of its own."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def console() -> tuple[Console, Terminal, Terminal]:
    out, err = Terminal(), Terminal()
    return Console(out, err), out, err


@given(st.text(st.characters()))
def test_printable_never_steers(text: str) -> None:
    """Nothing is left that moves a cursor, ends a line or turns the direction, whatever the text."""
    assert not set(printable(text)) & STEERING
    assert not set(printable_block(text)) & (STEERING - {"\n"})
    printable(text).encode("utf-8")


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_printable_leaves_plain_text_alone(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1;2|data\x1b\\x", "x"),
        ("\x1b(Bx\x1bc", "x"),
        ("\x9b31mx", "31mx"),
        ("a\r\nb\rc\td", "a b c d"),
        ("\udcff", "\ufffd"),
        ("a\u202eb\u2066c", "abc"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("שלום \N{ZERO WIDTH JOINER}", "שלום \N{ZERO WIDTH JOINER}"),
    ],
)
def test_escapes_go_and_text_stays(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(
    st.recursive(
        st.text(st.characters()) | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_documents_read_back_and_are_safe(value: object) -> None:
    """JSON escapes what steers, so that nothing is lost and nothing happens."""
    printer, out, err = console()
    printer.as_json = True
    printer.document(value)
    assert json.loads(out.getvalue()) == value
    assert not set(out.getvalue()) & (STEERING - {"\n"})
    assert err.getvalue() == ""


@given(st.lists(st.dictionaries(st.text(), st.text())))
def test_a_stream_is_one_document(items: list[dict[str, str]]) -> None:
    printer, out, _ = console()
    printer.stream({"context": "a", "version": 1}, "chunks", iter(items))
    assert json.loads(out.getvalue()) == {"context": "a", "version": 1, "chunks": items}
    printer, out, _ = console()
    printer.stream({}, "chunks", iter(items))
    assert json.loads(out.getvalue()) == {"chunks": items}


def test_under_json_people_s_lines_are_silent() -> None:
    printer, out, err = console()
    printer.as_json = True
    printer.line("a")
    printer.block("b")
    printer.paragraph("c")
    printer.table(("d",), [("e",)])
    printer.note("beside")
    assert (out.getvalue(), err.getvalue()) == ("", "beside\n")


def test_an_error_has_its_remedy_on_a_line_of_its_own() -> None:
    printer, out, err = console()
    printer.error("code", "first\nsecond", "do this")
    assert err.getvalue() == "error: first\nsecond\n  do this\n"
    printer, out, err = console()
    printer.as_json = True
    printer.error("code", "first\nsecond", "do this")
    assert json.loads(err.getvalue()) == {"error": {"code": "code", "message": "first\nsecond", "remedy": "do this"}}
    assert err.getvalue().count("\n") == 1
    assert out.getvalue() == ""


def test_tables_line_up_by_what_is_seen() -> None:
    """Wide characters count twice, numbers stand to the right, controls are gone before anything is measured."""
    printer, out, _ = console()
    printer.table(("name", "n", "rest"), [("a", 5, "x"), ("日本", 1234, "\x1b[31my"), ("long name", 12, "")])
    assert out.getvalue().splitlines() == [
        "name          n  rest",
        "a             5  x",
        "日本       1234  y",
        "long name    12",
    ]


def test_paragraphs_are_wrapped_and_cut() -> None:
    printer, out, _ = console()
    printer.paragraph("word " * 200, indent=3, lines=2)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("   word") and len(line) <= 100 for line in lines)
    assert lines[-1].endswith("…")


def test_an_encoding_that_lacks_a_letter_is_no_failure() -> None:
    out = Terminal("ascii")
    Console(out, Terminal("latin-1")).line("naïve • 日本")
    assert out.getvalue() == "na?ve ? ??\n"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (5e9, "5.0 GB"), (7e15, "7000.0 TB")],
)
def test_bytes(size: float, shown: str) -> None:
    assert bytes_text(size) == amount(size, "bytes") == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (42, "42 s"),
        (60, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_counts_and_moments() -> None:
    assert (counted(1, "chunk"), counted(0, "chunk"), counted(1200, "chunk")) == ("1 chunk", "0 chunks", "1,200 chunks")
    assert moment(0) == "-"
    assert len(moment(1e9)) == 19


def stage(name: str, **given: object) -> StageProgress:
    values = {
        "measure": "tokens", "done": 50, "total": 200, "estimated": False, "rate": 10.0, "finished": False, "seconds": 5.0, "spent": 1.0,
    }  # fmt: skip
    return StageProgress(name=name, **{**values, **given})  # type: ignore[arg-type]


def test_progress_in_words() -> None:
    """The stage that most work goes into speaks; what isn't known isn't said."""
    busy = stage("embed_dense", spent=9.0, estimated=True)
    told = progress_line(Progress("r", (stage("parse"), busy), 75.0))
    assert told == "embed_dense: 25 %, 50 tokens of about 200 tokens, 10 tokens/s, about 1 min 15 s left"
    assert progress_line(Progress("r", (stage("seal", total=0, done=0, rate=0.0),), None)) == "seal: under way"
    assert finished_line(stage("parse", measure="bytes", done=1500)) == "parse: done, 1.5 kB in 5.0 s"
    assert finished_line(stage("flip", done=0)) == "flip: done in 5.0 s"


def test_watching_tells_each_finished_stage_once_and_survives_a_busy_ledger() -> None:
    """The last look is after the work has ended, so nothing is missed; a look that fails shows nothing."""
    printer, out, err = console()
    looks = []

    def look() -> Progress:
        looks.append(threading.current_thread().name)
        if len(looks) == 1:
            raise Unavailable("ledger_busy", "busy")
        return Progress("r", (stage("parse", finished=True), stage("chunk", finished=True)), None)

    for _ in range(2):
        with printer.watch(look):
            pass
    assert set(looks) == {"progress"}
    assert err.getvalue().splitlines() == [finished_line(stage("parse")), finished_line(stage("chunk"))]
    assert out.getvalue() == ""
