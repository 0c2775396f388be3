"""The `Parser` port: one contract for the sandbox and the parsers in this process; what only the sandbox owes, below.

The rogue child beside this file stands for parsers that hang, crash and lie: it's what the sandbox starts instead of
the product's child.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.adapters.parser_inprocess import InProcessParser
from pipeline.adapters.parser_sandbox import SandboxedParser, SandboxLimits
from pipeline.errors import RejectedInput, Unavailable
from pipeline.parse import parse_bytes

HERE = Path(__file__).parent
PAGE = b"---\ntitle: T\n---\n# A\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n"
SOURCES = [
    (PAGE, "a.md"), ("Größe\n".encode("cp1252"), "ä.txt"), (b"<h1>A</h1><p>b", "a.html"), (b"id,n\n1,x\n2\n", "a.csv"),
    (b"def f():\n    pass\n", "a.py"), (b"# big\n\n" + b"words and words\n" * 50_000, "big.md"),
]  # fmt: skip


class ParserContract:
    """Inherited for each adapter."""

    def make(self):
        raise NotImplementedError

    @pytest.fixture
    def parser(self):
        parser = self.make()
        yield parser
        parser.close()

    @pytest.mark.parametrize(("data", "name"), SOURCES, ids=[name.encode().hex() for _, name in SOURCES])
    def test_documents(self, parser, data, name):
        """The same document as the pure parsers give, however often it's asked for."""
        assert parser.parse(data, name) == parse_bytes(data, name) == parser.parse(data, name)

    @pytest.mark.parametrize(
        ("data", "code"), [(b"", "empty_file"), (b"\x89PNG\r\n\x1a\n", "unsupported"), (b"%PDF-1.4 x", "pdf_broken")]
    )
    def test_refusals(self, parser, data, code):
        """A refusal has its code, message and remedy, and the next document is none the worse for it."""
        with pytest.raises(RejectedInput) as error:
            parser.parse(data, "x.bin")
        assert error.value.code == code
        assert "x.bin" in error.value.message
        assert parser.parse(b"fine", "y.txt").text == "fine"

    def test_threads(self, parser):
        """One parser serves several threads, each with its own document."""
        with ThreadPoolExecutor(6) as pool:
            found = pool.map(lambda i: parser.parse(f"document {i}".encode(), "a.txt").text, range(40))
        assert list(found) == [f"document {i}" for i in range(40)]

    def test_identity(self, parser):
        """Every adapter of the same parsers is the same recipe."""
        assert parser.identity == InProcessParser().identity

    def test_close_may_be_repeated(self, parser):
        parser.close()
        parser.close()


class TestInProcess(ParserContract):
    def make(self):
        return InProcessParser()


class TestSandbox(ParserContract):
    def make(self):
        return SandboxedParser(workers=2)


@pytest.fixture
def rogue():
    """A sandbox around the rogue child, and what was made with it, closed afterwards."""
    made = []

    def make(**limits):
        parser = SandboxedParser(SandboxLimits(**limits), module="rogue_child", module_root=HERE)
        made.append(parser)
        return parser

    yield make
    for parser in made:
        parser.close()


def refusal(parser, order):
    with pytest.raises(RejectedInput) as error:
        parser.parse(order, "evil.md")
    assert "evil.md" in error.value.message
    return error.value.code


@pytest.mark.parametrize(
    ("order", "codes", "limits"),
    [
        (b"hang", {"parse_timeout"}, {"wall_seconds": 0.5}),
        (b"sleep with signals blocked", {"parse_timeout"}, {"wall_seconds": 0.5}),
        (b"answer slowly", {"parse_timeout"}, {"wall_seconds": 0.5}),
        (b"burn", {"parse_timeout"}, {"cpu_seconds": 0}),
        (b"exit", {"parse_crashed"}, {}),
        (b"abort", {"parse_crashed"}, {}),
        (b"eat memory", {"parse_memory"}, {"memory_bytes": 1 << 30}),
        (b"kill", {"parse_memory"}, {}),
        (b"giant answer", {"parse_output"}, {"output_bytes_max": 1 << 16}),
        (b"announce a giant answer", {"parse_output"}, {}),
        (b"half an answer", {"parse_crashed"}, {}),
        (b"nonsense", {"parse_crashed"}, {}),
        (b"spans outside the text", {"parse_crashed"}, {}),
        (b"raise", {"parse_failed"}, {}),
        (b"recurse", {"parse_failed"}, {}),
        (b"write a file", {"parse_failed"}, {}),
    ],
)
def test_misbehaviour_is_one_refusal(rogue, order, codes, limits):
    """Whatever a document does to its parser, it's refused with a code, and the next one is parsed."""
    parser = rogue(**limits)
    assert refusal(parser, order) in codes
    assert parser.parse(b"# fine\n", "next.md").title == "fine"


def test_prints_are_no_answers(rogue):
    """What a library prints goes nowhere."""
    assert rogue().parse(b"print", "a.md").text == "printed"


def test_environment_stays_outside(rogue, monkeypatch):
    """A child sees none of the parent's environment."""
    monkeypatch.setenv("LAMINA_SECRET", "hidden")
    assert "hidden" not in rogue().parse(b"environment", "a.md").text


def test_no_core_dumps(rogue):
    assert rogue().parse(b"core limit", "a.md").text == "0"


def pid(parser):
    return int(parser.parse(b"pid", "a.md").text)


def test_children_are_warm_and_replaced(rogue):
    """A child serves `documents_per_child` documents, then another one does."""
    parser = rogue(documents_per_child=3)
    pids = [pid(parser) for _ in range(7)]
    assert [pids.count(one) for one in dict.fromkeys(pids)] == [3, 3, 1]


def test_crash_of_a_warm_child_is_tried_alone(rogue):
    """A document isn't blamed for what an earlier one did to the process: it's parsed once more in a new one."""
    parser = rogue()
    first = pid(parser)
    assert int(parser.parse(b"crash when warm", "a.md").text) != first
    assert refusal(parser, b"abort") == "parse_crashed"


def test_unasked_answers_reach_nobody(rogue):
    """What a child sends beside its answer isn't taken for the next document's."""
    parser = rogue()
    assert parser.parse(b"warm up", "b.txt").text == "warm up"
    assert refusal(parser, b"speak beside") == "parse_crashed"
    assert parser.parse(b"mine", "b.txt").text == "mine"
    assert refusal(parser, b"speak twice") == "parse_crashed"
    assert parser.parse(b"mine", "b.txt").text == "mine"


def test_refusals_keep_the_child(rogue):
    """A document that is refused in good order doesn't cost a new process."""
    parser = rogue()
    before = pid(parser)
    assert refusal(parser, b"refuse") == "no_text"
    assert pid(parser) == before


def test_child_that_died_while_idle_is_replaced(rogue):
    parser = rogue()
    first = pid(parser)
    os.kill(first, signal.SIGKILL)
    while os.path.exists(f"/proc/{first}/exe"):  # noqa: PTH110 - a link to nothing once the process is gone
        time.sleep(0.01)
    assert pid(parser) != first


def test_closed_parser_refuses_and_leaves_no_process(rogue):
    parser = rogue()
    child = pid(parser)
    parser.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with pytest.raises(Unavailable):
        parser.parse(b"x", "a.md")


@pytest.mark.parametrize("module", ["no_such_module", "this"])
def test_child_that_does_not_start(module):
    """A parser that can't start is an outage, not the document's fault."""
    parser = SandboxedParser(module=module)
    with pytest.raises(Unavailable) as error:
        parser.parse(b"x", "a.md")
    assert error.value.code == "parser_start"
    parser.close()


def test_child_ends_with_its_parent():
    """A parent that is killed leaves no child behind."""
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        from pathlib import Path
        from pipeline.adapters.parser_sandbox import SandboxedParser
        parser = SandboxedParser(module="rogue_child", module_root=Path({str(HERE)!r}))
        print(parser.parse(b"pid", "a.md").text, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    root = str(Path(parse_bytes.__code__.co_filename).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env={"PYTHONPATH": root}, timeout=120
    )
    child = int(done.stdout)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child}/exe").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_code_that_its_grammar_cannot_take_is_cut_by_its_lines():
    """Lines that may mean many things cost this grammar twice the time each; the text is found all the same."""
    text = "{e\n'}\n" + "#include <a>\n" * 60 + "`\n\nfun main() {\n  say(1)\n}\n"
    parser = SandboxedParser(SandboxLimits(wall_seconds=30, cpu_seconds=1))
    try:
        document = parser.parse(text.encode(), "a.kt")
        with pytest.raises(RejectedInput) as error:
            parser.parse(b"\x89PNG\r\n\x1a\n", "a.kt")
    finally:
        parser.close()
    assert (document.kind, document.language, document.text) == ("code", "kotlin", text)
    assert "a.kt took more than" in document.warnings[-1]
    assert error.value.code == "unsupported"
