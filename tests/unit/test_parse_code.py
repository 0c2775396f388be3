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


def chunks(text, name, target):
    document = parse_bytes(text.encode(), name)
    found = chunk_document(document, "code", ChunkOptions(target))
    at = 0
    for c in found:
        assert document.text[c.start : c.end] == c.text
        assert not document.text[at : c.start].strip()
        at = c.end
    assert not document.text[at:].strip()
    return found


def holding(found, text):
    return next(c for c in found if text in c.text)


def test_comments_go_with_what_they_speak_about():
    found = chunks("import os\nX = 1\n\n# about f\ndef f():\n    pass\nY = 2  # end\n# tail\n", "a.py", 12)
    assert [c.text for c in found] == ["import os\nX = 1", "# about f\ndef f():\n    pass", "Y = 2  # end\n# tail"]
    assert [c.heading_path for c in found] == [(), ("f",), ()]


def test_a_comment_about_nothing_is_cut_from_what_follows():
    found = chunks("a = 1\nb = 2\n\n# ----- part -----\n\ndef f():\n    pass\n", "a.py", 9)
    assert not any("part" in c.text and "def f" in c.text for c in found)


def test_documentation_stays_with_its_definition():
    body = "".join(f"    value_{i} = compute({i})\n" for i in range(12))
    text = f'class C:\n    """About C."""\n\n    def m(self):\n        """About m."""\n{body.replace("    ", "        ")}\n'
    found = chunks(text, "c.py", 40)
    assert 'class C:\n    """About C."""' in holding(found, "About C").text
    assert 'def m(self):\n        """About m."""' in holding(found, "About m").text


def test_classes_are_cut_at_members_and_members_at_statements():
    body = "".join(f"    def m{i}(self):\n        return {i}\n\n" for i in range(6))
    found = chunks(f"class C:\n{body}", "c.py", 24)
    assert all(c.text.lstrip().startswith(("class", "def")) for c in found)
    assert found[-1].heading_path == ("C",) or found[-1].heading_path == ("C", "m5")
    assert all(c.heading_path[:1] == ("C",) for c in found)
    alone = chunks(f"class C:\n{body}", "c.py", 12)
    assert ("C", "m3") in [c.heading_path for c in alone]


def test_a_long_function_is_cut_at_its_paragraphs_first():
    steps = "\n".join(f"    a{i} = {i}\n    b{i} = a{i}\n    print(b{i})\n" for i in range(8))
    found = chunks(f"def long():\n{steps}\n", "l.py", 40)
    assert len(found) > 2
    assert all(c.text.rstrip().endswith(")") for c in found)  # never between a and its print


@pytest.mark.parametrize(
    "text", ["def broken(:\n  x = (\n\nclass\n", "\n\n\n# only a comment\n", "x = '''never closed\n"]
)
def test_broken_python_is_still_text(text):
    assert "".join(c.text for c in chunks(text, "b.py", 400)).strip() == text.strip()


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


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"text/html": "<h2>Report</h2><p>two rows</p>", "text/plain": "<IPython.core.display.HTML object>"}, "two rows"),
        ({"text/markdown": ["**two** ", "rows"], "text/plain": "<IPython.core.display.Markdown object>"}, "**two** rows"),
        ({"text/html": "<p>two rows</p>"}, "two rows"),
        ({"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "two rows"}, "two rows"),
        ({"text/html": "<script>x()</script>", "text/plain": "<x.Map at 0x7f00>"}, "<x.Map at 0x7f00>"),
    ],
)  # fmt: skip
def test_outputs_that_show_themselves(data, shown):
    """What stands for an object says nothing where the object has a text; headings in it are none of the notebook."""
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    cell = {"cell_type": "code", "metadata": {}, "source": "show()", "outputs": [output]}
    document = parse_bytes(json.dumps({"metadata": {}, "cells": [cell]}).encode(), "n.ipynb")
    assert shown in document.text
    assert not re.search("IPython|script|<t", document.text)
    assert {block.kind for block in document.blocks} <= {"code", "paragraph"}


@pytest.mark.parametrize("data", [b"not json", b"[]", b"{}", b'{"cells": 3}', b'{"cells": ["x"]}', b"[" * 100_000])
def test_broken_notebooks_are_refused(data):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(data, "n.ipynb")
    assert error.value.code in {"notebook_broken", "empty_file"}


HEADER = """#ifndef A_H
#define A_H
#ifdef __cplusplus
extern "C" {
#endif

/** Kind. */
typedef enum {
    KIND_A,
    KIND_B
} kind_t;

/* Get it. */
int get(const kind_t *k);

static inline int value(int a)
{
    return a;
}

#ifdef __cplusplus
}
#endif
#endif
"""


def test_headers_for_both_languages():
    """The brackets that are for C++ alone don't hide what stands between them."""
    found = chunks(HEADER, "a.h", 30)
    assert [c.text.split("\n")[0] for c in found[1:4]] == ["/** Kind. */", "/* Get it. */", "#ifdef __cplusplus"]
    document = parse_bytes(HEADER.encode(), "a.h")
    assert [symbol.name for symbol in document.symbols] == ["kind_t", "value"]
    assert document.text == HEADER


def test_documents_of_one_yaml_file():
    """Places between documents are the best ones."""
    found = chunks("kind: A\nspec:\n  a: 1\n  b: 2\n---\n# Second\nkind: B\nspec:\n  c: 3\n", "a.yaml", 22)
    assert [c.text.split("\n")[0] for c in found] == ["kind: A", "---"]


def test_rows_on_one_line_of_sql():
    """Dumps write thousands of rows as one line; brackets and quotes in values are text."""
    rows = [f"({i},'O\\'Neil ({i}),(x','it''s')" for i in range(60)]
    found = chunks("INSERT INTO `t` VALUES " + ",".join(rows) + ";\n", "dump.sql", 100)
    assert len(found) > 5
    assert all(c.text.startswith("(") for c in found[1:])
    assert all(c.text.endswith("),") for c in found[:-1])


def test_regions_go_with_what_they_hold():
    text = "class A\n{\n    int a;\n\n    #region Actions\n    /// Gets.\n    int Get()\n    {\n        return 1;\n    }\n    #endregion\n}\n"
    found = chunks(text, "a.cs", 32)
    assert any(c.text.lstrip().startswith("#region Actions\n    /// Gets.\n    int Get()") for c in found)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?>\n<a>\u0434\u0430</a>\n', "a.xml"),
        ("# -*- coding: cp1251 -*-\nx = '\u0434\u0430'\n", "a.py"),
    ],
)
def test_declared_encodings_of_code(text, name):
    assert parse_bytes(text.encode("cp1251"), name).text == text
