"""Code and notebooks."""

import json
import re

import pytest

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

SRC = (
    '# 設定ファイル 🚀 первый\nimport os\n\nREG = {}\n\n\ndef keep(name):\n    """дом"""\n'
    "    def wrap(fn):\n        REG[name] = fn\n        return fn\n    return wrap\n\n\n"
    '@keep("a")\n@keep("b")\ndef first():\n    return os.sep\n\n\n'
    "class Box:\n    @property\n    def size(self):\n        return 1\n"
)


@pytest.mark.parametrize("target", [20, 45, 400])
def test_decorators_and_wide_characters(target):
    """O-16: decorators stay with what they decorate, and characters of several bytes shift nothing."""
    document = parse_bytes(SRC.encode(), "box.py")
    found = chunk_document(document, "code", ChunkOptions(target))
    at = 0
    for c in found:
        assert document.text[c.start : c.end] == c.text
        assert not document.text[at : c.start].strip()
        assert set(c.heading_path) <= {"keep", "wrap", "first", "Box", "size", "Box.size", "keep.wrap"}
        at = c.end
    assert not document.text[at:].strip()
    assert any('@keep("a")\n@keep("b")\ndef first' in c.text for c in found)
    assert any("    @property\n    def size" in c.text for c in found)


def test_definitions_and_their_comments():
    document = parse_bytes(b"import os\nX = 1\n\n# about f\ndef f():\n    pass\nY = 2  # end\n# tail\n", "a.py")
    assert [(b.kind, b.title, document.text[b.start : b.end]) for b in document.blocks] == [
        ("code", "", "import os\nX = 1\n\n"),
        ("definition", "f", "# about f\ndef f():\n    pass\n"),
        ("code", "", "Y = 2  # end\n# tail\n"),
    ]


def test_classes_are_cut_at_members():
    body = "".join(f"    def m{i}(self):\n        return {i}\n\n" for i in range(6))
    document = parse_bytes(f"class C:\n{body}".encode(), "c.py")
    found = chunk_document(document, "code", ChunkOptions(24))
    assert all(c.text.lstrip().startswith(("class", "def")) for c in found)
    assert {c.heading_path for c in found} == {("C",)}


@pytest.mark.parametrize(
    "text", ["def broken(:\n  x = (\n\nclass\n", "\n\n\n# only a comment\n", "x = '''never closed\n"]
)
def test_broken_python_is_still_text(text):
    document = parse_bytes(text.encode(), "b.py")
    assert "".join(document.text[b.start : b.end] for b in document.blocks).strip() == text.strip()


def test_other_languages_are_cut_at_unindented_lines():
    go = "package x\n\nfunc A() {\n\n\treturn 1\n\n}\n\nfunc B() {\n}\n"
    document = parse_bytes(go.encode(), "a.go")
    assert [document.text[b.start : b.end].strip() for b in document.blocks] == [
        "package x",
        "func A() {\n\n\treturn 1\n\n}",
        "func B() {\n}",
    ]
    assert document.language == "go"


PNG = "iVBORw0KGgo" + "QUJD" * 1500


def notebook(source):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["3 ", "rows\n"]},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": PNG, "text/plain": "<Plot of rows>"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["\x1b[31mKeyError\x1b[0m: 'x'"]},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Load\n", "first step"]},
        {"cell_type": "code", "metadata": {}, "execution_count": 7, "source": source, "outputs": outputs},
    ]
    value = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"language": "python"}}, "cells": cells}
    return parse_bytes(json.dumps(value).encode(), "load.ipynb")


def test_notebook():
    """O-17: cells and the text of outputs, no pictures, no colour codes, no JSON."""
    document = notebook("rows = 3\nprint(rows)")
    found = chunk_document(document, "markdown_heading", ChunkOptions(200))
    assert all(c.heading_path == ("Load",) for c in found)
    at = [document.text.index(part) for part in
          ("first step", "rows = 3\nprint(rows)", "3 rows", "<Plot of rows>", "KeyError: 'x'")]  # fmt: skip
    assert at == sorted(at)
    assert not re.search("QUJDQUJD|\x1b|cell_type|execution_count|kernelspec", document.text)
    assert document == notebook(["rows = 3\n", "print(rows)"])


@pytest.mark.parametrize("data", [b"not json", b"[]", b"{}", b'{"cells": 3}', b'{"cells": ["x"]}', b"[" * 100_000])
def test_broken_notebooks_are_refused(data):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(data, "n.ipynb")
    assert error.value.code in {"notebook_broken", "empty_file"}
