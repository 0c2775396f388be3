"""O-23: mail. Two forms of one body, encoded headers, attachments as documents of their own."""

from __future__ import annotations

import base64
import re
from email.message import EmailMessage

import pytest
from trouble import (
    Parsed,
    check_alone,
    check_clean,
    check_cover,
    check_slice,
    chunk,
    deployment,
    flat_strings,
    parse,
    table,
)

EML = (
    "From: a@x.test\r\nTo: b@x.test\r\nSubject: =?utf-8?B?R3LDtsOfZQ==?= =?iso-8859-1?Q?_ge=E4ndert?=\r\n"
    "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=M\r\n\r\n"
    "--M\r\nContent-Type: multipart/alternative; boundary=A\r\n\r\n"
    "--A\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    "D=E9j=E0 r=E9gl=E9: valve=3D7, the rest stays as=\r\n it was.\r\n"
    "--A\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    "<p>D\u00e9j\u00e0 r\u00e9gl\u00e9: valve=7, the rest stays as it was.</p>\r\n--A--\r\n"
    "--M\r\nContent-Type: text/csv; charset=utf-8\r\nContent-Disposition: attachment; filename*=utf-8''l%C3%A4nge.csv\r\n"
    "Content-Transfer-Encoding: base64\r\n\r\naWQsbGVuCjEsNDIK\r\n--M--\r\n"
).encode()
NAME = "re.eml"
SENTENCE = "Déjà réglé: valve=7, the rest stays as it was."
RAW = ("=E9", "=3D", "=?", "aWQsbGVu", "<p>")


def everything(doc: Parsed) -> list[str]:
    """Every text of the mail and its parts, and of their chunks."""
    documents = [doc.document, *(part.document for part in doc.document.parts)]
    texts = [one.text + one.header for one in documents]
    return texts + [c.prefix + c.text for one in documents for c in chunk(one, "markdown_heading", 200, 0)]


def test_o23_the_subject_is_decoded() -> None:
    """O-23.1."""
    doc = parse(EML, NAME)
    assert doc.meta["title"] == "Größe geändert"
    with deployment({NAME: EML}) as made:
        made.run()
        assert {m["title"] for m in made.live.metadata() if "part" not in m} == {"Größe geändert"}


def test_o23_the_body_is_said_once() -> None:
    """O-23.2."""
    assert parse(EML, NAME).text.count(SENTENCE) == 1
    with deployment({NAME: EML}) as made:
        made.run()
        assert sum(text.count(SENTENCE) for text in made.live.texts) == 1
        assert sum(text.count(SENTENCE) for text in made.embedded) == 1


def test_o23_nothing_is_left_encoded() -> None:
    """O-23.3."""
    doc = parse(EML, NAME)
    texts = everything(doc)
    with deployment({NAME: EML}) as made:
        made.run()
        texts += [*made.embedded, *made.live.texts]
    assert not [text for text in texts if any(raw in text for raw in RAW)]
    check_clean(doc, chunk(doc, "markdown_heading", 200, 0))


def test_o23_the_attachment_is_a_document_of_its_own() -> None:
    """O-23.4."""
    (part,) = parse(EML, NAME).document.parts
    assert part.name == "länge.csv"
    assert table(part.document) == (["id", "len"], [{"id": "1", "len": "42"}])
    with deployment({NAME: EML}) as made:
        made.run()
        mails = [m for m in made.live.metadata() if "parent_id" not in m]
        (own,) = [m for m in made.live.metadata() if "parent_id" in m]
        assert own["filename"] == "länge.csv"
        assert {own["parent_id"]} == {m["doc_id"] for m in mails}
        assert own["doc_id"] != own["parent_id"]
        assert "1,42" in str(own["text"])


def _mail(**body: object) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@x.test", "b@x.test", "Größe geändert"
    message.set_content(SENTENCE, **body)  # type: ignore[arg-type]
    return message


def _related() -> bytes:
    message = _mail(charset="utf-8", cte="base64")
    message.add_alternative(f"<p>{SENTENCE}</p><img src='cid:p'>", subtype="html")
    message.get_payload()[1].add_related(b"\x89PNG\r\n\x1a\n" + bytes(60), "image", "png", cid="<p>")  # type: ignore[index,union-attr]
    message.add_attachment("id,len\n1,42\n".encode("utf-16"), maintype="text", subtype="csv", filename="länge.csv")
    return message.as_bytes()


def _forwarded() -> bytes:
    outer = EmailMessage()
    outer["From"], outer["To"], outer["Subject"] = "c@x.test", "d@x.test", "Fwd"
    outer.set_content("see below")
    inner = _mail(charset="iso-8859-1", cte="quoted-printable")
    inner.add_attachment(b"id,len\n1,42\n", maintype="text", subtype="csv", filename="länge.csv")
    outer.add_attachment(inner)
    return outer.as_bytes()


def _html_only() -> bytes:
    head = (
        "From: a@x.test\r\nTo: b@x.test\r\nSubject: =?UTF-8?Q?Gr=C3=B6=C3=9Fe_ge=C3=A4ndert?=\r\nMIME-Version: 1.0\r\n"
    )
    page = f"<html><meta charset=windows-1252><p>{SENTENCE}</p></html>".encode("cp1252")
    csv_ = base64.b64encode(b"id,len\n1,42\n").decode()
    return (
        head.encode()
        + b'Content-Type: multipart/mixed; boundary="M N"\r\n\r\npreamble\r\n--M N\r\nContent-Type: text/html\r\n\r\n'
        + page
        + b'\r\n--M N\r\nContent-Type: application/octet-stream;\r\n name="=?utf-8?B?bMOkbmdlLmNzdg==?="\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\n" + csv_.encode() + b"\r\n--M N--\r\nepilogue =E9\r\n"
    )  # fmt: skip


@pytest.mark.parametrize("data", [_related(), _html_only()], ids=["related", "html-only"])
def test_o23_kind_other_mails(data: bytes) -> None:
    """O-23.1 to O-23.4, of the kind: base64 and windows-1252 bodies, pictures inside, names in encoded words."""
    doc = parse(data, NAME)
    assert doc.meta["title"] == "Größe geändert"
    assert doc.text.count(SENTENCE) == 1
    assert not [text for text in everything(doc) if any(raw in text for raw in RAW)]
    (part,) = doc.document.parts
    assert part.name == "länge.csv"
    assert table(part.document)[1] == [{"id": "1", "len": "42"}]
    found = chunk(doc, "markdown_heading", 200, 0)
    check_slice(doc, found)
    check_cover(doc, found)


def test_o23_kind_a_mail_in_a_mail() -> None:
    """O-23.1 to O-23.4, of the kind: the forwarded mail is a part, and its attachment too; ids tie both to the source."""
    data = _forwarded()
    doc = parse(data, "fwd.eml")
    assert "see below" in doc.text
    assert not [text for text in everything(doc) if any(raw in text for raw in RAW)]
    assert sum(part.document.text.count(SENTENCE) for part in doc.document.parts) == 1
    (rows,) = [part for part in doc.document.parts if part.name.endswith("länge.csv")]
    assert table(rows.document)[1] == [{"id": "1", "len": "42"}]
    with deployment({"fwd.eml": data}) as made:
        made.run()
        ids = {m["doc_id"] for m in made.live.metadata()}
        assert len(ids) == 3
        assert {m["parent_id"] for m in made.live.metadata() if "parent_id" in m} <= ids
        assert not [s for s in made.live.strings() if re.search(r"aWQsbGVu|=E9|=3D", s)]


def test_o23_kind_an_attachment_that_cannot_be_read() -> None:
    """O-23.4, of the kind: a broken attachment is named in a warning and stops nothing."""
    message = _mail(charset="utf-8")
    message.add_attachment(b"%PDF-1.4 broken", maintype="application", subtype="pdf", filename="plän.pdf")
    message.add_attachment(b"id,len\n1,42\n", maintype="text", subtype="csv", filename="länge.csv")
    data = message.as_bytes()
    doc = parse(data, NAME)
    assert [part.name for part in doc.document.parts] == ["länge.csv"]
    assert [w for w in doc.warnings if "plän.pdf" in w]
    check_alone({NAME: data, "ok.md": "# Ok\n\nstill here\n"}, NAME)
    with deployment({NAME: data}) as made:
        assert [w for w in made.run().warnings[NAME] if "plän.pdf" in w]
        assert made.live.metadata()
        assert all("" not in list(flat_strings(value)) for meta in made.live.metadata() for value in meta.values())
