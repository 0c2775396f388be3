"""Sources of every format, made at random and broken at random. The same random state gives the same source."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from functools import cache
from random import Random

WORDS = (
    "pump", "valve", "seal", "Oslo", "工程", "报告", "é", "e\u0301", "\U0001f469\U0001f3fd\u200d\U0001f692", "🇩🇪", "각", "क्षि", "naïve",
    "<|endoftext|>", "x" * 40, "a|b", "1,5", "2024-03-05", "=2+3", "--", "***", "`", "C++", "\u200b", "\u202e", "\xa0",
    "\u2028", "\x85", "\x0c", "\x1b[31m", "'", '"', "&amp;", "&#0;", "\\", "$", "{", "}", "<b>", "-->", "<!--", "]]>", "%s", "None",
)  # fmt: skip
MARKDOWN = (
    "# ", "## ", "### a ##", "\n", "\n\n", "    ", "\t", "- ", "1. ", "> ", "```", "~~~~", "```python\n", "|", "|---|---|\n",
    "| a | b |\n", "---\n", "+++\n", "title: x\n", "===\n", "<div>\n", "</div>\n", "<!-- ", " -->", "[a](b)", "![c](data:image/png;base64,AAAA)",
    "* * *\n", "[r]: /x\n", "\\|", "$$\n", ":::note\n",
)  # fmt: skip
HTML = (
    "<h1>", "</h1>", "<h2>", "</h2>", "<p>", "</p>", "<div>", "</div>", "<table>", "</table>", "<tr>", "<td>", "</td>", "<th>",
    "<ul>", "<li>", "</ul>", "<pre>", "</pre>", "<script>", "</script>", "<style>", "</style>", "<br>", "<a href='x'>", "</a>",
    "<!--", "-->", "<![CDATA[", "]]>", "<svg><g/></svg>", "<title>", "</title>", "<meta name=author content=x>", "<body>",
    "<img alt='y' src='data:image/png;base64,AAAA'>", "<nav>", "</nav>", "<details>", "<template>", "<select><option>", "&lt;", "&#x110000;",
)  # fmt: skip
CSV = (
    ",",
    ";",
    "\t",
    "|",
    "\n",
    "\r\n",
    '"',
    '""',
    "id",
    "name",
    "1",
    "2.5",
    "",
    "\n\n",
    '"a,b"',
    '"a\nb"',
    "'",
    "\ufeff",
)
CODE = (
    "def f():\n", "class A {\n", "}\n", "{", "(", ")", "    ", "\n", "\n\n", "# c\n", "// c\n", "/* c */", '"""', "'", "@d\n", "return 1\n",
    "function g() {\n", "end\n", "if (x) {\n", "a: 1\n", "- b\n", "[t]\n", "<?php\n", "#include <a>\n", "=>", "<a>\n", "</a>\n", ";\n", "import x\n",
)  # fmt: skip
MAIL = (
    "From: a@x.test\n", "To: b@x.test\n", "Subject: =?utf-8?B?R3LDtsOfZQ==?=\n", "Date: Tue, 5 Mar 2024 07:00:00 +0000\n", "MIME-Version: 1.0\n",
    "Content-Type: multipart/mixed; boundary=M\n", "Content-Type: text/html; charset=x-odd\n", "Content-Type: message/rfc822\n",
    "Content-Type: text/csv; name*=utf-8''l%C3%A4nge.csv\n", 'Content-Disposition: attachment; filename="../a.md"\n',
    "Content-Transfer-Encoding: base64\n", "Content-Transfer-Encoding: quoted-printable\n", "\n", "\n\n", "--M\n", "--M--\n", "=E9=\n", "> quoted\n",
    "begin 644 a.txt\n", " folded\n", "Content-Type: multipart/alternative; boundary=A\n", "--A\n", "--A--\n", "aWQsbGVuCjEsNDIK\n", "# T\n",
)  # fmt: skip
GRAMMARS = {
    "md": MARKDOWN, "markdown": MARKDOWN, "txt": MARKDOWN, "rst": MARKDOWN, "html": HTML, "htm": HTML, "vue": HTML, "xml": HTML, "mht": MAIL, "eml": MAIL,
    "csv": CSV, "tsv": CSV,
}  # fmt: skip
OFFICE = ("docx", "pptx", "xlsx")


def source(random: Random, extension: str) -> bytes:
    """One source for a name with this extension."""
    kind = random.random()
    if kind < 0.08:
        return random.randbytes(random.randrange(400))
    if extension in OFFICE:
        return _package(random, extension)
    if extension == "pdf":
        return mutated(random, _pdf(random))
    if extension in {"json", "jsonl", "ipynb"}:
        data = _json(random, extension)
    else:
        data = _text(random, GRAMMARS.get(extension, CODE)).encode("utf-8", "surrogatepass")
    data = _encoded(random, data)
    return mutated(random, data) if random.random() < 0.4 else data


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with a few flips, cuts, copies and insertions."""
    out = bytearray(data)
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(out) + 1)
        end = min(len(out), at + random.randrange(1, 40))
        way = random.randrange(6)
        if way == 0:
            out[at:end] = random.randbytes(end - at)
        elif way == 1:
            del out[at:end]
        elif way == 2:
            out[at:at] = out[at:end] * random.choice((1, 2, 50))
        elif way == 3:
            out[at:at] = random.choice(WORDS).encode()
        elif way == 4:
            del out[at:]
        elif out:
            out[min(at, len(out) - 1)] ^= 1 << random.randrange(8)
    return bytes(out)


def _text(random: Random, grammar: tuple[str, ...]) -> str:
    parts = []
    for _ in range(random.choice((3, 12, 60, 200))):
        piece = random.choice(grammar if random.random() < 0.6 else WORDS)
        parts.append(piece * random.choice((1, 1, 1, 1, 1, 30)))
        if random.random() < 0.3:
            parts.append(random.choice((" ", "\n", " ", "\n\n")))
    return "".join(parts)


def _encoded(random: Random, data: bytes) -> bytes:
    way = random.randrange(12)
    if way < 7:
        return data
    text = data.decode("utf-8", "replace")
    if way == 7:
        return b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    if way == 8:
        return data.replace(b"\n", b"\r")
    return text.encode(("utf-16", "utf-16-le", "latin-1")[way - 9], "replace")


def _value(random: Random, depth: int) -> object:
    way = random.randrange(9 if depth < 4 else 7)
    if way == 7:
        return [_value(random, depth + 1) for _ in range(random.randrange(4))]
    if way == 8:
        return {
            random.choice(("id", "title", "text", "name", "geo", "", "a.b")): _value(random, depth + 1)
            for _ in range(3)
        }
    plain = (None, True, 7, 2**60 + 1, 1.5, random.choice(WORDS), " ".join(random.choices(WORDS, k=9)))
    return plain[way]


def _json(random: Random, extension: str) -> bytes:
    if extension == "ipynb":
        kinds = ("markdown", "code", "raw", "odd")
        outputs = [
            {"output_type": "stream", "text": _value(random, 2)},
            {"output_type": "error", "ename": _value(random, 3)},
        ]
        cells = [
            {
                "cell_type": random.choice(kinds),
                "source": random.choice((_text(random, MARKDOWN), _value(random, 1))),
                "outputs": random.choice(([], outputs, None)),
            }
            for _ in range(3)
        ]
        return json.dumps({"nbformat": 4, "metadata": _value(random, 2), "cells": cells}).encode()
    rows = [
        {"id": i, "title": _value(random, 3), "text": _value(random, 2), "k": _value(random, 0)}
        for i in range(random.randrange(5))
    ]
    if extension == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode("utf-8", "surrogatepass")
    return json.dumps(random.choice((rows, {"data": rows}, _value(random, 0))), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def _pdf(random: Random) -> bytes:
    content = "BT /F1 12 Tf " + " ".join(
        f"{random.randrange(50, 300)} {random.randrange(50, 700)} Td ({random.choice(('pump', 'valve seal', 'two-'))}) Tj"
        for _ in range(random.randrange(6))
    )
    stream = content.encode("latin-1") + b" ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length %d>>stream\n" % len(stream) + stream + b"\nendstream", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Title(a)/CreationDate(D:20240305)>>",
    ]  # fmt: skip
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 7\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer\n<</Size 7/Root 1 0 R/Info 6 0 R>>\nstartxref\n%d\n%%%%EOF\n" % start)


def _package(random: Random, extension: str) -> bytes:
    """An Office file with some of its parts broken, or a broken archive."""
    original = _office(extension)
    if random.random() < 0.15:
        return mutated(random, original)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(original)) as read, zipfile.ZipFile(out, "w") as write:
        names = read.namelist()
        hurt = set(random.sample(names, min(len(names), random.choice((0, 1, 1, 2, 4)))))
        for name in names:
            data = read.read(name)
            if name in hurt and name.endswith((".xml", ".rels")):
                data = _xml(random, data) if random.random() < 0.8 else mutated(random, data)
            if not (name in hurt and random.random() < 0.1):
                write.writestr(name, data)
    return out.getvalue()


def _xml(random: Random, data: bytes) -> bytes:
    """A part whose elements were dropped, doubled, swapped or filled with odd text; still XML most of the time."""
    pieces = re.split(rb"(<[^>]*>)", data)
    for _ in range(random.randrange(1, 8)):
        at = random.randrange(len(pieces))
        way = random.randrange(5)
        if way == 0:
            pieces[at] = pieces[random.randrange(len(pieces))]
        elif way == 1 and not pieces[at].startswith(b"<"):
            pieces[at] = random.choice(WORDS).replace("&", "").replace("<", "").encode("utf-8", "ignore")
        elif way == 2:
            pieces[at] = re.sub(rb'"[^"]*"', lambda _m: b'"%d"' % random.choice((-1, 0, 7, 10**9, 10**30)), pieces[at])
        elif way == 3:
            end = min(len(pieces), at + random.randrange(1, 30))
            pieces[at:at] = pieces[at:end] * random.choice((1, 3))
        else:
            pieces[at] = re.sub(
                rb'"[^"]*"', b'"%s"' % random.choice((b"", b"x", b"true", b"A1:XFD1048576")), pieces[at]
            )
    return b"".join(pieces)


@cache
def _office(extension: str) -> bytes:
    out = io.BytesIO()
    {"docx": _docx, "pptx": _pptx, "xlsx": _xlsx}[extension](out)
    return out.getvalue()


def _docx(out: io.BytesIO) -> None:
    from docx import Document

    document = Document()
    document.add_heading("Pump", 0)
    document.add_heading("Seals", 1)
    document.add_paragraph("Grease the seal.")
    for style in ("List Bullet", "List Bullet 2", "List Number"):
        document.add_paragraph("an item", style=style)
    table = document.add_table(3, 2)
    for at, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {at}"
    document.save(out)


def _pptx(out: io.BytesIO) -> None:
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    for number in range(2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = "point one\npoint two"
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1)).text_frame.text = "grouped"
        slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table.cell(0, 0).text = "cell"
        slide.notes_slide.notes_text_frame.text = "say this"
    deck.save(out)


def _xlsx(out: io.BytesIO) -> None:
    import datetime as dt

    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["item", "due", "total"])
    for number in range(4):
        sheet.append([f"part {number}", dt.date(2024, 3, 5), "=2+3"])
    sheet.merge_cells("A2:B2")
    book.create_sheet("Other")["B3"] = base64.b64encode(b"blob" * 30).decode()
    book.create_sheet("Hidden").sheet_state = "hidden"
    book.save(out)
