"""Languages: grammars, separators for those without, and what neither knows."""

import re

import pytest
from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.parse import parse_bytes
from pipeline.parse.languages import GRAMMARS, LANGUAGE_OF_EXTENSION, SEPARATORS, language

SOURCES = {
    "a.py": "import os\n\n\n# about f\n@deco\ndef f(x):\n    a = 1\n    return a\n\n\nclass Box(Base):\n    @prop\n    def size(self):\n        return 1\n",
    "a.js": "import x from 'x'\n\n// about f\nfunction f(x) {\n  const a = 1\n  return a\n}\n\nexport class Box extends Base {\n  // size\n  size() {\n    return 1\n  }\n}\n",
    "a.ts": "import x from 'x'\n\n/** about f */\nexport function f(x: number): number {\n  const a = 1\n  return a\n}\n\n@Deco()\nclass Box {\n  @Prop()\n  size(): number {\n    return 1\n  }\n}\n",
    "a.tsx": "// about f\nfunction f() {\n  return <p>\n    hi\n  </p>\n}\n\nclass Box {\n  size() {\n    return 1\n  }\n}\n",
    "a.go": "package p\n\n// about f\nfunc f(x int) int {\n\ta := 1\n\treturn a\n}\n\ntype Box struct {\n\tsize int\n}\n",
    "a.rs": "use a::b;\n\n/// about f\n#[inline]\nfn f(x: u8) -> u8 {\n    let a = 1;\n    a\n}\n\nimpl Box {\n    /// size\n    fn size(&self) -> u8 {\n        1\n    }\n}\n",
    "A.java": "package p;\n\n/** about f */\n@Ann\npublic class Box {\n  @Override\n  public int size() {\n    return 1;\n  }\n\n  int f() {\n    return 2;\n  }\n}\n",
    "a.kt": "package p\n\n/** about f */\nfun f(): Int {\n  val a = 1\n  return a\n}\n\n@Ann\nclass Box {\n  fun size(): Int {\n    return 1\n  }\n}\n",
    "a.scala": "package p\n\n/** about f */\ndef f(): Int = {\n  val a = 1\n  a\n}\n\nclass Box {\n  def size(): Int = {\n    1\n  }\n}\n",
    "a.swift": "import A\n\n/// about f\nfunc f() -> Int {\n  let a = 1\n  return a\n}\n\n@objc\nclass Box {\n  func size() -> Int {\n    return 1\n  }\n}\n",
    "a.c": "#include <a.h>\n\n/* about f */\nstatic int *f(int x) {\n  int a = 1;\n  return a;\n}\n\nstruct Box {\n  int size;\n};\n",
    "a.cpp": "#include <a>\n\n// about f\ntemplate <class T>\nint f(T x) {\n  int a = 1;\n  return a;\n}\n\nclass Box : Base {\npublic:\n  int size() const {\n    return 1;\n  }\n};\n",
    "a.cs": "using S;\n\n/// about f\n[Attr]\npublic class Box {\n  [T]\n  public int size() {\n    return 1;\n  }\n\n  int f() {\n    return 2;\n  }\n}\n",
    "a.rb": "require 'x'\n\n# about f\ndef f(x)\n  a = 1\n  a\nend\n\nclass Box < Base\n  # size\n  def size\n    1\n  end\nend\n",
    "a.php": "<?php\nuse A;\n\n/** about f */\nfunction f($x) {\n  $a = 1;\n  return $a;\n}\n\n#[Attr]\nclass Box {\n  public function size() {\n    return 1;\n  }\n}\n",
    "a.lua": "local x = require 'x'\n\n-- about f\nlocal function f(x)\n  local a = 1\n  return a\nend\n\nfunction Box()\n  return 1\nend\n",
    "a.sh": "#!/bin/bash\nset -e\n\n# about f\nf() {\n  a=1\n  echo $a\n}\n\nBox() {\n  echo 1\n}\n",
    "a.sql": "SELECT 1;\n\n-- about f\nCREATE TABLE f (\n  a int,\n  b int\n);\n\nCREATE TABLE Box (\n  size int,\n  w int\n);\n",
    "a.tf": '# about f\nresource "f" "x" {\n  a = 1\n}\n\nresource "Box" "y" {\n  size = 1\n}\n',
    "a.css": "/* about f */\n.f, .g {\n  a: b;\n}\n\n.Box {\n  size: 1;\n}\n",
    "a.yaml": "# about f\nf:\n  a: 1\n  b: 2\n\nBox:\n  size: 1\n  w: 2\n",
    "a.toml": "# about f\n[f]\na = 1\n\n[Box]\nsize = 1\n",
    "a.xml": "<r>\n  <!-- about f -->\n  <f>\n    a\n  </f>\n  <Box>\n    size\n  </Box>\n</r>\n",
    "a.vue": "<script>\n  let f = 1 // about f\n</script>\n\n<template>\n  <Box>\n    size\n  </Box>\n</template>\n",
    "a.json": '{\n  "f": {\n    "about f": 1\n  },\n  "Box": {\n    "size": 1\n  }\n}\n',
}
"""In each: something named f with a comment right above it, then a Box with a size."""

NAMELESS = {"xml", "html"}


def test_every_grammar_is_loaded_by_a_sample():
    assert {language(b"", name) for name in SOURCES} == set(GRAMMARS)
    assert set(SEPARATORS) <= set(LANGUAGE_OF_EXTENSION.values())
    assert not set(SEPARATORS) & set(GRAMMARS)


@pytest.mark.parametrize("name", SOURCES)
def test_cuts_stand_between_definitions(name):
    """The comment stays with f, f and Box are apart, and each chunk knows which it is."""
    text = SOURCES[name]
    document = parse_bytes(text.encode(), name)
    assert document.language == language(b"", name)
    size = max(len(part) for part in text.split("\n\n")) // 3 + 6
    found = chunk_document(document, "code", ChunkOptions(size))
    assert "".join("".join(c.text.split()) for c in found) == "".join(text.split())
    about = next(c for c in found if "about f" in c.text)
    following = text.partition("about f")[2].split("\n")[1]
    assert following in about.text
    box = next(c for c in found if re.search(r"\bBox\b", c.text))
    assert "about f" not in box.text or re.search(r"\bBox\b", following) or "@Ann" in following or "[Attr]" in following
    names = {symbol.name for symbol in document.symbols}
    if document.language not in NAMELESS:
        assert any("f" in one for one in names)
        assert any("Box" in one for one in names)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("cut", [3, 7, 13])
def test_broken_code_is_still_covered(name, cut):
    text = SOURCES[name][cut:-cut] + "\n}{)(\"'\n"
    document = parse_bytes(text.encode(), name)
    for target in (8, 40):
        found = chunk_document(document, "code", ChunkOptions(target))
        assert "".join("".join(c.text.split()) for c in found) == "".join(document.text.split())


ORACLE = {
    "a.py": "python", "a.js": "js", "a.go": "go", "a.rs": "rust", "a.rb": "ruby", "a.php": "php", "a.kt": "kotlin",
    "a.swift": "swift", "a.scala": "scala", "a.lua": "lua", "a.ts": "ts", "a.cpp": "cpp",
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLE)
def test_langchain_finds_no_definition_that_the_tree_misses(name):
    """langchain's separators as an oracle: where one begins a line, a cut stands there or at what belongs above it."""
    text = SOURCES[name]
    document = parse_bytes(text.encode(), name)
    cuts = {0, *document.blocks[0].cuts}
    separators = RecursiveCharacterTextSplitter.get_separators_for_language(Language(ORACLE[name]))
    named = [s for s in separators if s.startswith("\n") and s.strip() and s.strip() not in {"public", "default"}]
    found = [m.start() + 1 for s in named for m in re.finditer(s, text)]
    assert found
    for start in found:
        at, above = start, text[:start]
        while at not in cuts:
            above = above[:-1].rpartition("\n")[0]
            at = len(above) + 1 if above else 0
            line = text[at:].partition("\n")[0].lstrip()
            assert line.startswith(("#", "//", "/*", "--", "@", "template")), (name, line)


FALLBACK = {
    "a.ex": "defmodule A do\n  x = 1\nend\n\ndefmodule B do\n  y = 2\nend\n",
    "a.proto": "message A {\n  int32 x = 1;\n}\n\n// about B\nmessage B {\n  int32 y = 2;\n}\n",
    "a.sol": "contract A {\n  uint x;\n}\n\n/// about B\ncontract B {\n  uint y;\n}\n",
    "a.ps1": "function A {\n  1\n}\n\n# about B\nfunction B {\n  2\n}\n",
    "a.hs": "module A where\n  x = 1\n\ndata B = B\n  y = 2\n",
    "a.vb": "Public Sub A()\n  x\nEnd Sub\n\nPublic Sub B()\n  y\nEnd Sub\n",
    "a.clj": "(defn a []\n  1)\n\n; about b\n(defn b []\n  2)\n",
    "Makefile": "a: all of it\n\tx y z\n\n# about b\nb:\n\ty\n",
}


@pytest.mark.parametrize("name", FALLBACK)
def test_languages_without_a_grammar(name):
    text = FALLBACK[name]
    document = parse_bytes(text.encode(), name)
    assert document.kind == "code"
    found = chunk_document(document, "code", ChunkOptions(16))
    assert "".join("".join(c.text.split()) for c in found) == "".join(text.split())
    first, second = text.split("\n\n")
    assert any(c.text.strip() == second.strip() for c in found), [c.text for c in found]
    assert first


@pytest.mark.parametrize(
    ("first", "name", "expected"),
    [
        (b"#!/usr/bin/env python3\n", "run", "python"),
        (b"#!/bin/sh -e\n", "run", "bash"),
        (b"#!/usr/bin/env -S node --x\n", "run", "javascript"),
        (b"#!/opt/strange\n", "run", ""),
        (b"namespace a {}\n", "a.h", "cpp"),
        (b"int f(void);\n", "a.h", "c"),
        (b"", "lib/Dockerfile", "dockerfile"),
        (b"", "CMakeLists.txt", "cmake"),
    ],
)
def test_language_of_a_file(first, name, expected):
    assert language(first, name) == expected


def test_deep_nesting_ends():
    """Neither recursion nor time grows past what the text is worth."""
    for text, name in (("(" * 50_000, "a.py"), ("[\n" * 20_000, "a.json"), ("a:\n" + " b:\n" * 5000, "a.yaml")):
        document = parse_bytes(text.encode(), name)
        assert chunk_document(document, "code", ChunkOptions(400))


@pytest.mark.parametrize("name", SOURCES)
def test_cuts_stand_inside_the_text(name):
    """Some trees end in an empty node behind the last line."""
    for text in (SOURCES[name], SOURCES[name].rstrip("\n"), SOURCES[name] + "\n\n}", SOURCES[name][:-9] + "\n"):
        (block,) = parse_bytes(text.encode(), name).blocks
        assert all(block.start < cut < block.end for cut in block.cuts)
