"""O-16 and O-17: code and notebooks. Decorators, wide characters above the code, outputs."""

from __future__ import annotations

import json

import pytest
from trouble import (
    Parsed,
    Passage,
    check_cap,
    check_clean,
    check_cover,
    check_only_blanks_between,
    check_order,
    check_slice,
    chunk,
    deployment,
    headings,
    parse,
    sized,
)

# O-16

SRC = (
    "# 設定ファイル 🚀 первый\nimport os\n\nREG = {}\n\n\ndef keep(name):\n"
    '    """дом"""\n'
    "    def wrap(fn):\n        REG[name] = fn\n        return fn\n    return wrap\n\n\n"
    '@keep("a")\n@keep("b")\ndef first():\n    return os.sep\n\n\n'
    "class Box:\n    @property\n    def size(self):\n        return 1\n"
)
NAME, TARGET, OVERLAP = "box.py", 45, 0
SYMBOLS = {"keep", "wrap", "first", "Box", "size", "Box.size", "keep.wrap"}


def holding(found: list[Passage], words: str) -> Passage:
    (only,) = [c for c in found if words in c.text]
    return only


def test_o16_spans_are_exact() -> None:
    """O-16.1."""
    doc = parse(SRC, NAME)
    assert doc.text == SRC
    found = chunk(doc, "code", TARGET, OVERLAP)
    assert len(found) > 1
    check_slice(doc, found)
    check_cover(doc, found)
    check_only_blanks_between(doc, found)


def test_o16_decorators_stay_with_what_they_decorate() -> None:
    """O-16.2, O-16.3."""
    found = chunk(parse(SRC, NAME), "code", TARGET, OVERLAP)
    assert '@keep("a")\n@keep("b")\ndef first' in holding(found, "def first").text
    lines = holding(found, "def size").text.splitlines()
    (at,) = [i for i, line in enumerate(lines) if "def size" in line]
    assert at > 0
    assert lines[at - 1].strip() == "@property"


@pytest.mark.parametrize("target", [12, 20, TARGET, 200])
def test_o16_names_are_names_of_the_code(target: int) -> None:
    """O-16.4."""
    for c in chunk(parse(SRC, NAME), "code", target, OVERLAP):
        assert set(c.path) <= SYMBOLS
        assert not c.path or ".".join(c.path) in SYMBOLS


def test_o16_a_whole_run_says_the_same() -> None:
    """O-16.1, O-16.4, for the records of a run."""
    with deployment({NAME: SRC}) as made:
        made.run(sized(64))
        for meta in made.live.metadata():
            start, end = meta["start_index"], meta["end_index"]
            assert isinstance(start, int)
            assert isinstance(end, int)
            assert SRC[start:end] == meta["text"]
            headings_ = meta.get("headings", ())
            assert isinstance(headings_, tuple)
            assert set(headings_) <= SYMBOLS


WIDE = "設定ファイル 🚀 e\u0301 первый \U0001f469\u200d\U0001f692"
LANGUAGES = {
    "a.ts": ((f"// {WIDE}\nconst x = 1;\n\n@Component({{ a: 1 }})\n@Other()\nexport class Box {{\n  @Input()\n  size(): number {{\n"
             "    return 1;\n  }\n}\n"), "@Component({ a: 1 })\n@Other()\nexport class Box", "@Input()\n  size()"),
    "A.java": ((f"// {WIDE}\nimport java.util.List;\n\n@Deprecated\n@Entity\npublic class Box {{\n    @Override\n"
               "    public int size() {\n        return 1;\n    }\n}\n"), "@Deprecated\n@Entity\npublic class Box",
               "@Override\n    public int size"),
    "a.rs": ((f"// {WIDE}\nuse std::fmt;\n\n#[derive(Debug)]\n#[repr(C)]\nstruct Box {{\n    n: u8,\n}}\n\nimpl Box {{\n"
             "    #[inline]\n    fn size(&self) -> u8 {\n        1\n    }\n}\n"), "#[derive(Debug)]\n#[repr(C)]\nstruct Box",
             "#[inline]\n    fn size"),
    "a.cs": ((f"// {WIDE}\nusing System;\n\n[Serializable]\n[Old]\nclass Box {{\n    [Fact]\n    int Size() {{\n        return 1;\n"
             "    }\n}\n"), "[Serializable]\n[Old]\nclass Box", "[Fact]\n    int Size"),
    "a.py": ((f'"""{WIDE}"""\nimport os\n\n\n@keep(\n    "a",\n)\n# said of first\n@keep("b")\nasync def first():\n    return 1\n\n\n'
             "class Box:\n    @property\n    # said of size\n    def size(self):\n        return 1\n"),
             '@keep(\n    "a",\n)\n# said of first\n@keep("b")\nasync def first', "@property\n    # said of size\n    def size"),
    "a.js": ((f"// {WIDE}\nimport x from 'x';\n\n/** said of first */\nexport async function first() {{\n  return 1;\n}}\n\n"
             "class Box {\n  /** said of size */\n  size() {\n    return 1;\n  }\n}\n"),
             "/** said of first */\nexport async function first", "/** said of size */\n  size()"),
    "a.go": ((f"package main\n\n// {WIDE}\nvar x = 1\n\n// First is said\n// of first.\nfunc First() int {{\n\treturn 1\n}}\n\n"
             "// Size is said of size.\nfunc (b Box) Size() int {\n\treturn 1\n}\n"), "// First is said\n// of first.\nfunc First",
             "// Size is said of size.\nfunc (b Box) Size"),
}  # fmt: skip
"""Name to a source, and two pieces of it that stay whole."""


@pytest.mark.parametrize("target", [30, 45])
@pytest.mark.parametrize("name", LANGUAGES)
def test_o16_kind_other_languages(name: str, target: int) -> None:
    """O-16.1 to O-16.3, of the kind: attributes, annotations and comments before what they say something of."""
    source, *wholes = LANGUAGES[name]
    doc = parse(source, name)
    assert doc.text == source
    found = chunk(doc, "code", target, 0)
    check_slice(doc, found)
    check_cover(doc, found)
    check_only_blanks_between(doc, found)
    check_cap(found, target)
    for whole in wholes:
        assert [c for c in found if whole in c.text], whole


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "crlf"])
def test_o16_kind_other_encodings(encoding: str) -> None:
    """O-16.1 to O-16.3, of the kind: with marks and other line ends, offsets count the text's own characters."""
    data = SRC.replace("\n", "\r\n").encode() if encoding == "crlf" else SRC.encode(encoding)
    doc = parse(data, NAME)
    assert doc.text == SRC
    assert chunk(doc, "code", TARGET, OVERLAP) == chunk(parse(SRC, NAME), "code", TARGET, OVERLAP)


# O-17

PNG = "iVBORw0KGgo" + "QUJD" * 1500


def notebook(source: object) -> dict[str, object]:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["3 ", "rows\n"]},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": PNG, "text/plain": "<Plot of rows>"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["\x1b[31mKeyError\x1b[0m: 'x'"]},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Load\n", "first step"]},
        {"cell_type": "code", "metadata": {}, "execution_count": 7, "source": source, "outputs": outputs},
    ]
    meta = {"kernelspec": {"language": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": meta, "cells": cells}


DATA = json.dumps(notebook("rows = 3\nprint(rows)")).encode()
LISTED = json.dumps(notebook(["rows = 3\n", "print(rows)"])).encode()
LATER = ("rows = 3\nprint(rows)", "3 rows", "<Plot of rows>", "KeyError: 'x'")
UNSEEN = ("QUJDQUJD", "\x1b", "cell_type", "execution_count", "kernelspec")


@pytest.mark.parametrize("target", [12, 30, 200])
def test_o17_everything_stands_under_its_heading(target: int) -> None:
    """O-17.1."""
    doc = parse(DATA, "load.ipynb")
    found = chunk(doc, "markdown_heading", target, 0)
    assert [c for c in found if "first step" in c.text]
    assert {tuple(c.path) for c in found} == {("Load",)}
    assert headings(doc) == [(1, "Load")]


def test_o17_code_and_outputs_in_order() -> None:
    """O-17.2."""
    doc = parse(DATA, "load.ipynb")
    check_order(doc.text, *LATER)
    check_cover(doc, chunk(doc, "markdown_heading", 200, 0))


def test_o17_nothing_of_the_file_format() -> None:
    """O-17.3."""
    doc = parse(DATA, "load.ipynb")
    texts = [doc.text, *(s for c in chunk(doc, "markdown_heading", 200, 0) for s in (c.text, c.prefix))]
    with deployment({"load.ipynb": DATA}) as made:
        made.run()
        texts += [*made.embedded, *made.live.strings()]
    assert not [text for text in texts if any(words in text for words in UNSEEN)]


@pytest.mark.parametrize("strategy", ["markdown_heading", "sliding_window"])
def test_o17_a_source_as_one_string_or_as_lines(strategy: str) -> None:
    """O-17.4."""
    found = [[c.text for c in chunk(parse(data, "load.ipynb"), strategy, 20, 0)] for data in (DATA, LISTED)]
    assert found[0] == found[1]
    assert len(found[0]) > 1


def _old() -> dict[str, object]:
    """nbformat 3: worksheets, `input`, headings as cells, outputs by name."""
    cells = [
        {"cell_type": "heading", "level": 1, "metadata": {}, "source": ["Load"]},
        {"cell_type": "markdown", "metadata": {}, "source": "first step"},
        {"cell_type": "code", "language": "python", "input": ["rows = 3\n", "print(rows)"], "prompt_number": 7, "outputs": [
            {"output_type": "stream", "stream": "stdout", "text": "3 rows\n"},
            {"output_type": "display_data", "png": PNG, "text": "<Plot of rows>"},
            {"output_type": "pyerr", "ename": "KeyError", "evalue": "'x'", "traceback": ["\x1b[31mKeyError\x1b[0m: 'x'"]}]},
    ]  # fmt: skip
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def _coloured() -> dict[str, object]:
    """Colours and pictures where plain text is expected."""
    made = notebook("rows = 3\nprint(rows)")
    cells = made["cells"]
    assert isinstance(cells, list)
    cells[1]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "\x1b[1;32m3\x1b[0m rows\n"},
        {"output_type": "execute_result", "metadata": {}, "data": {
            "text/html": f"<img src='data:image/png;base64,{PNG}'>", "image/jpeg": [PNG, PNG],
            "text/plain": ["\x1b[4m<Plot", " of rows>\x1b[24m"]}},
        {"output_type": "error", "ename": "\x1b[31mKeyError\x1b[0m", "evalue": "'x'", "traceback": []},
    ]  # fmt: skip
    return made


@pytest.mark.parametrize("made", [_old(), _coloured()], ids=["nbformat-3", "colours"])
def test_o17_kind_other_notebooks(made: dict[str, object]) -> None:
    """O-17.1 to O-17.3, of the kind: the older format, colours and pictures elsewhere."""
    doc = parse(json.dumps(made), "load.ipynb")
    check_order(doc.text, "first step", *LATER)
    found = chunk(doc, "markdown_heading", 200, 0)
    assert {tuple(c.path) for c in found} == {("Load",)}
    assert not [words for c in found for words in UNSEEN if words in c.text]
    check_clean(doc, found)


def _document(doc: Parsed) -> list[str]:
    return [c.text for c in chunk(doc, "markdown_heading", 20, 0)]


def test_o17_kind_marks_and_line_ends() -> None:
    """O-17.4, of the kind: a mark at the start, indented JSON and CRLF inside sources change nothing."""
    plain = _document(parse(DATA, "load.ipynb"))
    assert _document(parse(b"\xef\xbb\xbf" + DATA, "load.ipynb")) == plain
    assert _document(parse(json.dumps(notebook("rows = 3\nprint(rows)"), indent=1), "load.ipynb")) == plain
    assert _document(parse(json.dumps(notebook("rows = 3\r\nprint(rows)")), "load.ipynb")) == plain
