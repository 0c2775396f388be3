"""Formats by content, encodings, and refusals that say what they saw."""

import io
import zipfile

import pytest

from pipeline.errors import RejectedInput
from pipeline.parse import PARSERS, detect, identity, parse_bytes
from pipeline.parse.decode import decode
from pipeline.parse.languages import hint


def zipped(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"# A\n", "a.md", "markdown"),
        (b"# A\n", "A.MARKDOWN", "markdown"),
        (b"words", "a.txt", "text"),
        (b"words", "README", "text"),
        (b"<!DOCTYPE html><p>x", "a.txt", "html"),
        (b"\xef\xbb\xbf \n<!-- c --><HTML><p>x", "page", "html"),
        (b"<html> in markdown", "a.md", "markdown"),
        (b"a,b\n", "a.csv", "csv"),
        (b"x = 1\n", "a.py", "code"),
        (b"#!/usr/bin/env python\nx = 1\n", "tool", "code"),
        (b"{}", "a.json", "json"),
        (b"{}", "a.ipynb", "notebook"),
        (b"%PDF-1.7\n", "a.txt", "pdf"),
        (b"\n\n%PDF-1.4", "scan.md", "pdf"),
        (b"words", ".md", "text"),
    ],
)
def test_content_decides_and_the_name_hints(data, name, kind):
    assert detect(data, name) == kind
    assert kind in PARSERS


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n....", "PNG"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (zipped("a.txt"), "zip"),
        (zipped("word/document.xml"), "Word"),
        (zipped("xl/workbook.xml"), "Excel"),
        (zipped("ppt/presentation.xml"), "PowerPoint"),
        (b"\x7fELF\x02", "program"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x00\x00\x00\x18ftypmp42", "MP4"),
        (b"RIFF\x00\x00\x00\x00WAVE", "RIFF"),
    ],
)
def test_unsupported_says_what_it_looks_like(data, what):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(data, "notes.md")
    assert error.value.code == "unsupported"
    assert what in error.value.message
    assert "notes.md" in error.value.message


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf\n", b"\x00\x00"])
def test_empty_files_are_told(data):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(data, "a.md")
    assert error.value.code == "empty_file"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é工".encode(), "é工"),
        (b"\xef\xbb\xbfa\r\nb\rc", "a\nb\nc"),
        ("é工".encode("utf-16"), "é工"),
        (b"\xfe\xff" + "é工".encode("utf-16-be"), "é工"),
        ("plain words without any mark at all".encode("utf-16-le"), "plain words without any mark at all"),
        ("Über größere Änderungen müssen wir später noch ausführlich reden.".encode("cp1252"),
         "Über größere Änderungen müssen wir später noch ausführlich reden."),
    ],
)  # fmt: skip
def test_encodings(data, text):
    """UTF-8 first, then marks, then a guess; newlines are one character; the mark is gone."""
    assert decode(data)[0] == text


@pytest.mark.parametrize(
    "text",
    [
        "Caf\u00e9 \u2013 \u201cquoted\u201d text\n\nSecond par \u20ac5\n",
        "\u00dcberschrift: sch\u00f6ne Gr\u00fc\u00dfe aus K\u00f6ln, Stra\u00dfe 5\n",
        "Le caf\u00e9 \u00e9tait tr\u00e8s bon \u2014 l\u2019\u00e9t\u00e9 dernier.",
        "El ni\u00f1o comi\u00f3 pi\u00f1as. \u00bfQu\u00e9?",
        "S\u00e3o Paulo \u00e9 uma cidade; as condi\u00e7\u00f5es.",
        "Preis: 5 \u20ac",
        "\u00bd cup of sugar \u00d7 3, 20\u00b0C, m\u00b2",
    ],
)
def test_short_western_texts(text):
    """Statistics would take them for Central European or Cyrillic ones."""
    assert decode(text.encode("cp1252")) == (text, ("not UTF-8; read as cp1252",))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144. Prosz\u0119 wys\u0142a\u0107 faktur\u0119.", "cp1250"),
        ("\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430? \u042d\u0442\u043e \u043f\u0440\u043e\u0441\u0442\u043e\u0439 \u0442\u0435\u043a\u0441\u0442.", "koi8_r"),
        ("\u3053\u308c\u306f\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002\u6f22\u5b57\u3082\u3042\u308a\u307e\u3059\u3002", "cp932"),
    ],
)  # fmt: skip
def test_other_old_encodings(text, encoding):
    assert decode(text.encode(encoding))[0] == text


def test_old_encodings_show_late():
    """The first character that isn't ASCII may stand far behind what is looked at."""
    text = "plain line\n" * 20_000 + "Gr\u00f6\u00dfe\n"
    assert decode(text.encode("cp1252"))[0] == text


def test_damaged_utf8_stays_utf8():
    """One bad byte doesn't make all other characters those of an old encoding."""
    text, warnings = decode("Gr\u00f6\u00dfe und \u00c4nderung\n".encode() * 5 + b"caf\xe9\n")
    assert text == "Gr\u00f6\u00dfe und \u00c4nderung\n" * 5 + "caf\ufffd\n"
    assert warnings == ("not UTF-8 in 1 place, marked with \ufffd",)


@pytest.mark.parametrize("declared", ["iso-8859-1", "latin1", "us-ascii"])
def test_latin_1_is_windows_1252(declared):
    assert decode(b"a\xf1o \x80", declared)[0] == "a\u00f1o \u20ac"


def test_guesses_and_nuls_are_told():
    assert decode("Größe und Änderung für später".encode("cp1252"))[1]
    text, warnings = decode(b"a\x00b")
    assert text == "a b"
    assert warnings


def test_binary_is_undecodable():
    with pytest.raises(RejectedInput) as error:
        decode(bytes(range(256)) * 64)
    assert error.value.code == "undecodable"


def test_broken_utf16_is_undecodable():
    with pytest.raises(RejectedInput) as error:
        decode(b"\xff\xfe\x00\xd8a")
    assert error.value.code == "undecodable"


def test_identity_names_the_libraries():
    """A format library's new version is another recipe."""
    assert "liteparse@" in identity()


@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.json", "a.txt", "a"])
def test_a_whole_page_is_html_whatever_its_name(name):
    assert detect(b"<!DOCTYPE html><html><body><h1>Not found</h1></body></html>", name) == "html"


@pytest.mark.parametrize(
    "declared",
    ["undefined", "idna", "punycode", "unicode_escape", "utf-7", "no-such", "\u00e9".encode().decode("latin-1")],
)
def test_odd_charsets_are_not_used(declared):
    page = f"<meta charset={declared}><p>caf".encode() + b"\xe9</p>"
    assert "caf\u00e9" in parse_bytes(page, "a.html").text


NAMES = (
    "a.md",
    "b/c.MD",
    "Makefile",
    "x/makefile",
    "CMakeLists.txt",
    "notes.txt",
    ".py",
    "a.py",
    "py",
    "a.h",
    "a.json",
    "a.jsonl",
    "a",
)


@pytest.mark.parametrize(
    "data", [b"set(x 1)\n\nadd(y)\n", b'{"a": 1}\n{"a": 2}\n', b"class A {\n};\n", b"# T\n\nx,y\n1,2\n"]
)
def test_the_hint_is_all_of_a_name_that_counts(data):
    """What the memo knows a parsed document by: equal bytes and hints, equal documents."""
    by_hint = {}
    for name in NAMES:
        try:
            outcome = parse_bytes(data, name)
        except RejectedInput as error:
            outcome = error.code
        assert by_hint.setdefault(hint(name), outcome) == outcome, name
    assert hint("CMakeLists.txt") != hint("notes.txt")
