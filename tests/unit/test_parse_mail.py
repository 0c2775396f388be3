"""Mail: one form of the body, decoded; attachments as documents of their own; nothing hostile gets past."""

import base64
import csv
import io
from dataclasses import replace
from email.message import EmailMessage
from email.policy import SMTP

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import detect, parse_bytes, wire
from pipeline.parse.csv import columns
from pipeline.parse.mail.message import DEPTH_MAX, PARTS_MAX

HEAD = b"From: a@x.test\r\nSubject: s\r\nMIME-Version: 1.0\r\n"
WORDS = ["valve", "pump", "seal", "rotor", "Größe", "泵"]


def parse(data, name="a.eml"):
    return parse_bytes(data if isinstance(data, bytes) else data.encode(), name)


def built(text=None, *, html=None, subject="Hello", **fields):
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"], message["Subject"] = "Ann Lee <a@x.test>", "b@x.test", subject
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    if text is not None:
        message.set_content(text)
    if html is not None and text is not None:
        message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")
    return message


def body(document):
    """The text below the subject."""
    return document.text.partition("\n\n")[2].strip()


def kinds(document):
    return [(b.kind, document.text[b.start : b.end].strip()) for b in document.blocks]


def check(document):
    """What holds for every document, the parts included."""
    assert wire.decode(wire.encode(document)) == document
    for one in (document, *(part.document for part in document.parts)):
        at = 0
        for block in one.blocks:
            assert not one.text[at : block.start].strip()
            at = block.end
        assert not one.text[at:].strip()
        assert "\r" not in one.text
        for value in (one.text, one.title, *one.warnings):
            value.encode()
    names = [part.name for part in document.parts]
    assert len({name.casefold() for name in names}) == len(names)
    for name in names:
        assert all(segment.strip(". ") and segment.isprintable() for segment in name.split("/"))


EML = (
    "From: a@x.test\r\nTo: b@x.test\r\nSubject: =?utf-8?B?R3LDtsOfZQ==?= =?iso-8859-1?Q?_ge=E4ndert?=\r\n"
    "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=M\r\n\r\n"
    "--M\r\nContent-Type: multipart/alternative; boundary=A\r\n\r\n"
    "--A\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    "D=E9j=E0 r=E9gl=E9: valve=3D7, the rest stays as=\r\n it was.\r\n"
    "--A\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    "<p>D\u00e9j\u00e0 r\u00e9gl\u00e9: valve=7, the rest stays as it was.</p>\r\n--A--\r\n"
    "--M\r\nContent-Type: text/csv; charset=utf-8\r\n"
    "Content-Disposition: attachment; filename*=utf-8''l%C3%A4nge.csv\r\n"
    "Content-Transfer-Encoding: base64\r\n\r\naWQsbGVuCjEsNDIK\r\n--M--\r\n"
).encode()


def test_two_forms_encoded_subject_attachment():
    """O-23: the body once and decoded, the subject decoded, the attachment a document with its record."""
    document = parse(EML, "re.eml")
    check(document)
    sentence = "Déjà réglé: valve=7, the rest stays as it was."
    assert document.title == dict(document.metadata)["title"] == "Größe geändert"
    assert document.text.count(sentence) == 1
    (part,) = document.parts
    assert part.name == "länge.csv"
    (row,) = csv.reader(io.StringIO(part.document.text))
    assert dict(zip(columns(part.document), row, strict=True)) == {"id": "1", "len": "42"}
    texts = []
    for one in (document, part.document):
        for chunk in chunk_document(one, "markdown_heading", ChunkOptions(200)):
            assert one.text[chunk.start : chunk.end] == chunk.text
            texts.append(chunk.prefix + chunk.text)
    assert [sentence in text for text in texts] == [True, False]
    told = "\n".join((*texts, document.text, str(document.metadata), part.document.text, str(document.warnings)))
    assert not any(left in told for left in ("=E9", "=3D", "=?", "aWQsbGVu", "<p>"))
    assert document.warnings == part.document.warnings == ()


def test_header_becomes_metadata():
    """Who, to whom, when and in answer to what: flat, decoded, dates in both forms."""
    document = parse(
        b'From: "Lee, Ann" <a@x.test>\r\nTo: =?utf-8?Q?J=C3=B6?= <j@x.test>, b@x.test (Bo)\r\nCc: team: c@x.test;\r\n'
        b"Subject: Re:\r\n one\r\n\ttwo\r\nDate: Tue, 5 Mar 2024 08:00:00 +0100\r\nMessage-ID: <2@x>\r\n"
        b"In-Reply-To: <1@x>\r\nKeywords: a, b\r\n\r\ntext"
    )
    assert document.metadata == (
        ("title", "Re: one two"), ("author", "Lee, Ann"), ("from", "a@x.test"), ("to", ("Jö <j@x.test>", "Bo <b@x.test>")),
        ("cc", ("c@x.test",)), ("recipients", ("j@x.test", "b@x.test", "c@x.test")),
        ("created", "2024-03-05T08:00:00+01:00"), ("created_epoch", 1709622000), ("message_id", "2@x"),
        ("in_reply_to", "1@x"), ("keywords", ("a", "b")),
    )  # fmt: skip
    assert kinds(document) == [("heading", "# Re: one two"), ("paragraph", "text")]


@pytest.mark.parametrize(
    ("date", "found"),
    [
        ("Tue, 5 Mar 2024 07:00:00 -0000", {"created": "2024-03-05T07:00:00+00:00", "created_epoch": 1709622000}),
        ("soon", {"date": "soon"}),
        ("Tue, 99 Mar 999999 25:61:00 +9999", {"date": "Tue, 99 Mar 999999 25:61:00 +9999"}),
    ],
)
def test_dates(date, found):
    """A date without a zone is UTC; one that can't be read stays as it is written."""
    metadata = dict(parse(f"From: a@x.test\nDate: {date}\n\ntext").metadata)
    assert {key: value for key, value in metadata.items() if key in ("created", "created_epoch", "date")} == found


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"=?utf-8?Q?=C3?= =?UTF-8?Q?=A4?= b", "ä b"),  # a character in two words
        (b"=?utf-8?q?a?= b =?utf-8?q?c?=\r\n =?utf-8?q?d?=", "a b cd"),
        (b"=?utf-8*de?Q?J=C3=B6_x?=", "Jö x"),
        (b"=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=", "日本"),
        (b"=?nonsense?Q?J=C3=B6?=", "Jö"),
        (b"=?utf-8?B?R3LDtg?= x", "Grö x"),  # padding is missing
        (b"=?utf-8?Q?what?_why?=", "what? why"),
        (b"=?utf-8?Z?x?= =?utf-8?Q?", "=?utf-8?Z?x?= =?utf-8?Q?"),
        ("Größe".encode(), "Größe"),
        ("Größe".encode("cp1252"), "Größe"),
    ],
)
def test_encoded_words(raw, shown):
    assert parse(b"From: a@x.test\r\nSubject: " + raw + b"\r\n\r\ntext").title == shown


@pytest.mark.parametrize(
    ("charset", "data", "shown", "warns"),
    [
        ("iso-8859-1", "Größe".encode("latin-1"), "Größe", False),
        ("iso-8859-1", "“so”".encode("cp1252"), "“so”", False),  # what programs write under that name
        ("iso-2022-jp", "日本語".encode("iso-2022-jp"), "日本語", False),
        ("gb2312", "泵浦".encode("gb18030"), "泵浦", False),
        ("utf-16", "Größe".encode("utf-16"), "Größe", False),
        ("us-ascii", "Größe".encode(), "Größe", False),
        ("utf-8", ("Die Größe der Düse ändert sich über das Jahr. " * 5).encode("latin-1"), "Düse ändert", True),
        ("x-nonsense", "Größe".encode(), "Größe", False),
        ("punycode", "Größe".encode(), "Größe", False),
        ("base64", "Größe".encode(), "Größe", False),
        ('"\0', "Größe".encode(), "Größe", False),
    ],
)
def test_character_sets(charset, data, shown, warns):
    """The declared set is used if it can be; a wrong or unknown one loses nothing, and what was guessed is told."""
    document = parse(HEAD + f"Content-Type: text/plain; charset={charset}\r\n\r\n".encode() + data)
    assert shown in body(document)
    assert bool(document.warnings) == warns


def test_html_where_there_is_no_text():
    """HTML is read if it stands alone or beside blank text; the page's own character set counts if the mail says none."""
    page = "<meta charset=iso-8859-2><h2>Łódź</h2><p>one <b>two</b></p>"
    for message in (built(html=page), built(" \n\n", html=page)):
        document = parse(bytes(message))
        check(document)
        assert kinds(document)[1:] == [("heading", "## Łódź"), ("paragraph", "one two")]
    raw = HEAD + b"Content-Type: text/html\r\n\r\n" + page.encode("iso-8859-2")
    assert "Łódź" in parse(raw).text


def test_texts_of_a_mixed_mail_are_read_in_order():
    data = HEAD + (
        b"Content-Type: multipart/mixed; boundary=M\r\n\r\nignored preamble\r\n"
        b"--M\r\n\r\nfirst\r\n--M\r\nContent-Type: text/html\r\n\r\n<p>second</p>\r\n"
        b"--M\r\nContent-Type: text/plain\r\n\r\nthird\r\n--M--\r\nignored epilogue"
    )
    assert body(parse(data)).split() == ["first", "second", "third"]


def test_files_inside_an_alternative_stay():
    """Some programs put the attachment beside the HTML form only; it's kept though the plain form is read."""
    message = built("plain", html="<p>rich</p>")
    rich = message.get_payload()[1]
    rich.make_related()
    rich.add_related(b"x,y\n1,2\n", "text", "csv", filename="in.csv", disposition="inline")
    document = parse(bytes(message))
    assert body(document) == "plain"
    assert [part.name for part in document.parts] == ["in.csv"]


def test_flowed_text():
    """RFC 3676: soft breaks are joined within a quote depth, stuffed blanks removed, the signature mark left alone."""
    text = (
        "one \r\ntwo \r\nthree\r\n\r\n> quoted \r\n> on\r\n>> deeper \r\n> back\r\n from stuffed\r\n >no quote\r\n"
        "loose end \r\n-- \r\nAnn\r\n"
    )
    document = parse(HEAD + b"Content-Type: text/plain; format=flowed\r\n\r\n" + text.encode())
    assert body(document) == (
        "one two three\n\n> quoted on\n>> deeper\n> back\nfrom stuffed\n>no quote\nloose end\n-- \nAnn"
    )
    joined = HEAD + b"Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\nKrei \r\nsel\r\n"
    assert body(parse(joined)) == "Kreisel"


def test_quotes_and_signatures_are_blocks_of_their_own():
    """What is quoted stays, marked as such; lines that look like Markdown are no headings."""
    document = parse(HEAD + b"\r\n# no heading\r\nyes\r\n\r\nBo wrote:\r\n> # was\r\n> it?\r\n-- \r\nAnn\r\n")
    check(document)
    assert kinds(document) == [
        ("heading", "# s"), ("paragraph", "# no heading\nyes"), ("paragraph", "Bo wrote:"),
        ("quote", "> # was\n> it?"), ("paragraph", "-- \nAnn"),
    ]  # fmt: skip


def test_attached_mails_are_flattened():
    """A mail inside is a part named by its file name, else by its subject; what it holds is named under it."""
    inner = built("inner text", subject="Re: a/b")
    inner.add_attachment(b"k,v\n1,2\n", "text", "csv", filename="in.csv")
    nameless = built("third text", subject="")
    del nameless["Subject"]
    outer = built("outer text")
    outer.add_attachment(inner)
    outer.add_attachment(nameless)
    outer.add_attachment(bytes(inner), "application", "octet-stream", filename="saved.eml")
    document = parse(bytes(outer))
    check(document)
    assert body(document) == "outer text"
    assert [part.name for part in document.parts] == [
        "Re: a_b.eml", "Re: a_b.eml/in.csv", "message.eml", "saved.eml", "saved.eml/in.csv",
    ]  # fmt: skip
    assert [part.document.kind for part in document.parts] == ["eml", "csv", "eml", "eml", "csv"]
    assert "inner text" in document.parts[0].document.text
    assert all(part.document.parts == () for part in document.parts)


def test_mails_inside_mails_end_somewhere():
    message = built("innermost")
    for level in range(DEPTH_MAX + 2):
        outer = built(f"level {level}", subject=f"s{level}")
        outer.add_attachment(message)
        message = outer
    document = parse(bytes(message))
    check(document)
    assert len(document.parts) == DEPTH_MAX
    assert "innermost" not in "".join(part.document.text for part in document.parts)
    assert any("deep" in warning for warning in document.parts[-1].document.warnings)


def attached(*files, text="text"):
    message = built(text)
    for name, kind, data in files:
        message.add_attachment(data, *kind.split("/"), filename=name)
    return bytes(message)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\ann\\a.txt", "a.txt"),
        ("..", "part 1.txt"),
        ("a\u202etxt.exe", "atxt.exe"),
        ("x" * 300 + ".txt", "x" * 116 + ".txt"),
        ("=?utf-8?Q?l=C3=A4nge.txt?=", "länge.txt"),
        ("la\u0308nge.txt", "länge.txt"),
    ],
)
def test_names_are_one_segment(name, shown):
    """Names are decoded and can't leave the mail's own folder."""
    header = f'Content-Disposition: attachment; filename="{name}"'.replace("\\", "\\\\").encode()
    data = HEAD + b"Content-Type: multipart/mixed; boundary=M\r\n\r\n--M\r\n" + header + b"\r\n\r\nwords\r\n--M--"
    document = parse(data)
    check(document)
    assert [part.name for part in document.parts] == [shown]


def test_equal_names_are_told_apart():
    files = [(name, "text/plain", b"words") for name in ("a.txt", "A.TXT", "a.txt", "b", "b", "a (2).txt")]
    document = parse(attached(*files))
    assert [part.name for part in document.parts] == [
        "a.txt", "A (2).TXT", "a (3).txt", "b", "b (2)", "a (2) (2).txt",
    ]  # fmt: skip


def test_what_cannot_be_read_is_named():
    """An attachment that is broken, sealed or of an unknown format costs a warning, not the mail."""
    document = parse(
        attached(
            ("run.exe", "application/octet-stream", b"MZ\x90\x00"),
            ("empty.txt", "text/plain", b""),
            ("bad.pdf", "application/pdf", b"%PDF-1.7\nnonsense"),
            ("winmail.dat", "application/ms-tnef", b"\x78\x9f\x3e\x22"),
            ("smime.p7m", "application/pkcs7-mime", b"\x30\x80"),
            ("smime.p7s", "application/pkcs7-signature", b"\x30\x80"),
            ("logo.png", "image/png", b"\x89PNG\r\n\x1a\n"),
            ("sig.jpg", "image/jpeg", b"\xff\xd8\xff"),
            ("ok.md", "text/markdown", b"# Fine\n"),
        )
    )
    check(document)
    assert body(document) == "text"
    assert [part.name for part in document.parts] == ["ok.md"]
    told = document.warnings
    assert [next((w for w in told if name in w), "")[:10] for name in ("run.exe", "empty.txt", "bad.pdf")] == [
        "attachment"
    ] * 3
    assert sum("TNEF" in w for w in told) == sum("S/MIME" in w for w in told) == 1
    assert "pictures aren't read: logo.png, sig.jpg" in told
    assert not any("p7s" in w for w in told)
    assert len(told) == 6


def test_texts_attached_in_another_character_set():
    """What the mail says of a text's character set counts for the parser of its format too."""
    data = HEAD + (
        b"Content-Type: multipart/mixed; boundary=M\r\n\r\n--M\r\nContent-Type: text/csv; charset=iso-8859-2; name=a.csv\r\n"
        b"Content-Disposition: attachment\r\n\r\n" + "miasto\r\nŁódź\r\n".encode("iso-8859-2") + b"--M\r\n"
        b"Content-Type: text/plain; charset=iso-8859-1; name=really.pdf\r\n\r\n%PDF-1.7 \xe9\r\n--M--\r\n"
    )
    document = parse(data)
    assert [part.document.text for part in document.parts] == ["Łódź\n"]
    assert "really.pdf" in document.warnings[0]


def test_what_other_parts_are():
    """Digests hold mails without saying so; reports tell in text; names continue over parameters; pictures are named."""
    data = HEAD + (
        b"Content-Type: multipart/mixed; boundary=M\r\n\r\n--M\r\nContent-Type: multipart/digest; boundary=D\r\n\r\n"
        b"--D\r\n\r\nSubject: one\r\n\r\nfirst\r\n--D--\r\n"
        b"--M\r\nContent-Type: message/delivery-status\r\n\r\nStatus: 5.1.1\r\n"
        b"--M\r\nContent-Type: text/plain; name*0*=utf-8''l%C3%A4; name*1=nge.txt\r\n\r\nwords\r\n"
        b"--M\r\nContent-Type: image/png\r\n\r\nx\r\n--M\r\nContent-Type: application/zzz\r\n\r\nsome text\r\n--M--\r\n"
    )
    document = parse(data)
    check(document)
    assert body(document) == "Status: 5.1.1"
    assert [part.name for part in document.parts] == ["one.eml", "länge.txt", "part 4.zzz"]
    assert document.warnings == ("pictures aren't read: part 3.png",)


def test_many_attachments():
    """Beyond the bound they are counted, not read."""
    document = parse(attached(*((f"{i}.txt", "text/plain", b"words") for i in range(PARTS_MAX + 5))))
    assert len(document.parts) == PARTS_MAX
    assert any(w.startswith("5 more") for w in document.warnings)


def test_parts_of_a_broken_mail():
    """A wrong boundary, a missing end, no boundary at all: the text is found."""
    for kind, text in (
        (b"multipart/mixed; boundary=WRONG", b"--M\r\n\r\nfound it\r\n--M--\r\n"),
        (b"multipart/mixed; boundary=M", b"--M\r\n\r\nfound it\r\n"),
        (b"multipart/mixed", b"--M\r\n\r\nfound it\r\n--M--\r\n"),
        (b"multipart/mixed; boundary=M", b"found it\r\n"),
        (b"text/plain charset=utf-8", b"found it"),
        (b"nonsense", b"found it"),
    ):
        document = parse(HEAD + b"Content-Type: " + kind + b"\r\n\r\n" + text)
        assert body(document) == "found it"


def test_concatenated_and_noisy_base64():
    """Base64 that was padded midway, broken by blanks or cut short gives what it says."""
    encoded = base64.b64encode(b"first ") + b"==" + base64.b64encode(b"second!").replace(b"b", b" b\r\n") + b"x"
    document = parse(HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n" + encoded)
    assert body(document).startswith("first second!")


def test_only_attachments():
    """The text is the subject; without one, the parts alone make the document."""
    files = ("a.csv", "text/csv", b"k\n1\n")
    message = built(subject="Numbers")
    message.add_attachment(files[2], "text", "csv", filename=files[0])
    document = parse(bytes(message))
    assert document.text.strip() == "# Numbers"
    del message["Subject"]
    document = parse(bytes(message))
    check(document)
    assert document.text == ""
    assert [part.name for part in document.parts] == ["a.csv"]


def test_nothing_to_read_is_told():
    with pytest.raises(RejectedInput) as refused:
        parse(b"From: a@x.test\r\nTo: b@x.test\r\n\r\n \r\n")
    assert refused.value.code == "empty_file"


def test_invitations():
    """Summary, dates and place of an invitation are lines of the text, beside the plain form."""
    ics = (
        "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nDTSTART:19700101T000000\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT\r\n"
        'SUMMARY;LANGUAGE=en:Pump\\, seal \r\n and rotor\r\nDTSTART;TZID="Europe/Oslo":20240305T080000\r\n'
        "DTEND:20240305T080000Z\r\nLOCATION:Hall 2\r\nBEGIN:VALARM\r\nSUMMARY:ring\r\nEND:VALARM\r\nEND:VEVENT\r\n"
    )
    shown = (
        "summary: Pump, seal and rotor\nstart: 2024-03-05 08:00 (Europe/Oslo)\nend: 2024-03-05 08:00 UTC\n"
        "location: Hall 2"
    )
    message = built("Please come.")
    message.add_alternative(ics, subtype="calendar")
    assert kinds(parse(bytes(message)))[1:] == [("paragraph", "Please come."), ("paragraph", shown)]


def test_signed_and_encrypted():
    """Signatures are passed over and what they sign is read; what is encrypted is told and leaves no cipher."""
    signed = HEAD + (
        b"Content-Type: multipart/signed; boundary=S\r\n\r\n--S\r\n\r\nsigned text\r\n"
        b"--S\r\nContent-Type: application/pgp-signature; name=s.asc\r\n\r\nQUJD\r\n--S--\r\n"
    )
    inline = HEAD + (
        b"\r\n-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA256\r\n\r\nsigned text\r\n"
        b"-----BEGIN PGP SIGNATURE-----\r\n\r\nQUJDQUJD\r\n-----END PGP SIGNATURE-----\r\n"
    )
    for data in (signed, inline):
        assert (body(parse(data)), parse(data).warnings) == ("signed text", ())
    sealed = HEAD + (
        b"Content-Type: multipart/encrypted; boundary=E\r\n\r\n--E\r\nContent-Type: application/pgp-encrypted\r\n\r\n"
        b"Version: 1\r\n--E\r\nContent-Type: application/octet-stream\r\n\r\nQUJDQUJD\r\n--E--\r\n"
    )
    armored = HEAD + b"\r\n-----BEGIN PGP MESSAGE-----\r\n\r\nQUJDQUJD\r\n-----END PGP MESSAGE-----\r\n"
    for data in (sealed, armored):
        document = parse(data)
        assert body(document) == ""
        assert any("encrypted" in warning for warning in document.warnings)
    opened = HEAD + b"\r\n-----BEGIN PGP MESSAGE-----\r\n\r\nnever closed\r\n"
    assert "never closed" in body(parse(opened))


def test_page_archives():
    """MHT: the page is the document; frames, styles and pictures are not."""
    data = (
        b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://x.test/page\r\nSubject: =?utf-8?Q?P=C3=A4ge?=\r\n"
        b"Date: Tue, 5 Mar 2024 07:00:00 -0000\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/related; type="text/html"; boundary=B\r\n\r\n'
        b"--B\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
        b"<html lang=3Dde><h1>P=C3=A4ge</h1><p>words</p>\r\n--B\r\nContent-Type: text/css\r\n\r\np{}\r\n"
        b"--B\r\nContent-Type: text/html\r\n\r\n<p>frame</p>\r\n--B\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n--B--\r\n"
    )
    document = parse(data, "page.mhtml")
    check(document)
    assert (document.kind, document.title, document.parts, document.warnings) == ("html", "Päge", (), ())
    assert document.text == "# Päge\n\nwords\n\n"
    assert dict(document.metadata) == {
        "title": "Päge", "url": "https://x.test/page", "saved": "2024-03-05T07:00:00+00:00", "saved_epoch": 1709622000,
        "language": "de",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"no header at all", "a.eml", "eml"),
        (b"From: a@x.test\nSubject: s\n\ntext", "note.txt", "eml"),
        (b"\xef\xbb\xbfReceived: from x\r\nFrom: a\r\n\r\ntext", "mail", "eml"),
        (b"Message-ID: <1@x>\nDate: today\n", "1", "eml"),
        (b"From ann Tue Mar  5 07:00:00 2024\nFrom: a@x.test\nDate: x\n\ntext", "mail", "eml"),
        (b"Received: " + b"x" * 9000 + b"\nFrom: a@x.test\n\ntext", "mail", "text"),  # not within the head
        (b"From: a@x.test\nSubject: s\n\ntext", "note.md", "markdown"),
        (b"from: a@x.test\nsubject: s\n", "config.yaml", "code"),
        (b"---\nSubject: s\nDate: 2024-03-05\n---\ntext", "post", "text"),
        (b"HTTP/1.1 200 OK\r\nDate: x\r\nFrom: a@x.test\r\nSubject: s\r\n\r\n", "dump.txt", "text"),
        (b"Date: x\r\nServer: y\r\nContent-Type: text/html\r\n\r\n<p>", "head.txt", "text"),
        (b"Subject: Maths\nDate: 2024-03-05\nCourse: 101\n\nlimits", "memo.txt", "text"),  # no program, no address
        (b"From: a@x.test\nSubject: s\nand so on, a note.\n", "note.txt", "text"),  # prose right below
        (b"From here on, a@x.test: it goes on.\n", "prose.txt", "text"),
        (b"Subject: one field only\n\ntext", "note.txt", "text"),
    ],
)
def test_mail_is_recognised_and_nothing_else(data, name, kind):
    assert detect(data, name) == kind


def test_mailboxes_are_refused_with_a_remedy():
    one = b"From ann Tue Mar  5 07:00:00 2024\nFrom: a@x.test\nDate: x\n\ntext\n\n"
    for data, name in ((one, "in.mbox"), (one * 2, "Inbox"), (one * 2, "a.eml")):
        with pytest.raises(RejectedInput) as refused:
            parse(data, name)
        assert (refused.value.code, bool(refused.value.remedy)) == ("unsupported", True)
    assert parse(one, "a.eml").text.strip() == "text"


def test_a_file_that_is_no_mail_is_text():
    document = parse(b"Note: the valve\nis shut.\n")
    assert (document.kind, document.text) == ("text", "Note: the valve\nis shut.\n")


HUGE = {
    "header fields": b"".join(b"X-%d: %s\r\n" % (i, b"y" * 60) for i in range(30_000)) + b"From: a@x.test\r\n\r\ntext",
    "one folded field": HEAD + b"To: a@x.test\r\n" + b" , b@x.test\r\n" * 200_000 + b"\r\ntext",
    "boundaries": HEAD + b"Content-Type: multipart/mixed; boundary=A\r\n\r\n" + b"--A\r\n\r\nx\r\n" * 100_000,
    "nested multiparts": HEAD
    + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(500))
    + b"x\n" * 500_000,
    "lines like boundaries": HEAD + b"Content-Type: multipart/mixed; boundary=A\r\n\r\n" + b"--A x\r\n" * 300_000,
    "parameters": HEAD + b"Content-Type: text/plain" + b'; a="' * 300_000 + b"\r\n\r\ntext",
    "armour": HEAD + b"\r\n" + b"-----BEGIN PGP MESSAGE-----\r\n" * 60_000,
    "flowed quotes": HEAD + b"Content-Type: text/plain; format=flowed\r\n\r\n" + b"> x \r\n" * 300_000,
    "padding": HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n" + b"QQ==" * 400_000,
    "subject": b"From: a@x.test\r\nSubject: " + b"=?utf-8?q?" * 200_000 + b"\r\n\r\ntext",
}


@pytest.mark.parametrize("data", HUGE.values(), ids=HUGE.keys())
def test_what_is_slow_for_a_careless_reader_ends(data):
    """2 MB each: in quadratic time none of them would come to an end while anybody waits."""
    check(parse(data))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", HEAD, HEAD + b"Content-Type: multipart/mixed; boundary=A\r\n\r\n--A\r\n"]),
)
def test_any_bytes(data, head):
    """Whatever stands in a file called a mail: a valid document or a refusal."""
    try:
        check(parse(head + data))
    except RejectedInput:
        return


lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=4)


@st.composite
def mails(draw, depth=2):
    """A mail that the standard library writes, and the words that must be found in it."""
    text = "\n".join(draw(lines))
    subject = draw(st.sampled_from(WORDS))
    message = built(text, html=draw(st.sampled_from([None, "<p>rich</p>"])), subject=subject)
    words = set(text.split()) | {subject}
    for number in range(draw(st.integers(0, 2))):
        rows = draw(lines)
        message.add_attachment("".join(f"{row}\n" for row in rows).encode(), "text", "plain", filename=f"{number}.txt")
        words |= set(" ".join(rows).split())
    if depth and draw(st.booleans()):
        inner, inside = draw(mails(depth=depth - 1))
        message.add_attachment(inner)
        words |= inside
    return message, words


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mails())
def test_what_the_standard_library_writes_is_read(case):
    """Text, attachments and mails inside, whatever transfer encoding was chosen: every word, and no warning."""
    message, words = case
    document = parse(bytes(message))
    check(document)
    told = " ".join((document.text, *(part.document.text for part in document.parts)))
    assert words <= set(told.split())
    assert "rich" not in told
    assert not document.warnings
    assert len(document.parts) == sum(1 for part in message.walk() if part.get_filename()) + sum(
        1 for part in message.walk() if part.get_content_type() == "message/rfc822"
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mails(), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 30)), max_size=5))
def test_damaged_mails(case, wounds):
    """A real mail with pieces cut out or overwritten is a valid document or refused."""
    data = bytes(case[0])
    for where, new, length in wounds:
        at = int(where * len(data))
        data = data[:at] + new + data[at + length :]
    try:
        document = parse(data)
    except RejectedInput:
        return
    check(document)
    assert parse(data) == replace(document)
