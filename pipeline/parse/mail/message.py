"""EML and MHT: one mail as text under its subject, its attachments as parts, each read as its own format would be.

Of alternatives the plain text is read, or the HTML where there is none; quoted lines are blocks of kind `quote`. What
can't be read never fails the mail: a warning names it. Byte work is `mime.py`, text conventions `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from pipeline.errors import RejectedInput
from pipeline.parse import html, text
from pipeline.parse.detect import detect, extension
from pipeline.parse.mail import bodies
from pipeline.parse.mail.mime import Entity, entity, mail_start
from pipeline.parse.mail.names import Names, ending, segment
from pipeline.parse.metadata import Entries, describe
from pipeline.parse.writer import Writer
from pipeline.types import ParsedDocument, Part

PARTS_MAX = 200
"""Attachments that are read of one source, those of mails inside included. Their bytes need no bound of their own:
what is decoded is never longer than the source, level by level."""
DEPTH_MAX = 5
"""Mails inside mails that are read."""
MULTIPART_DEPTH_MAX = 20
"""Multiparts inside multiparts of one mail; mail programs make four."""
ENTITIES_MAX = 2_000
"""MIME parts of one source that are looked at, whatever they hold."""
WARNINGS_MAX = 100
PICTURES_MAX = 20
"""Pictures that a warning names."""

_SIGNATURES = frozenset(
    (
        "application/pgp-signature",
        "application/pkcs7-signature",
        "application/x-pkcs7-signature",
        "application/pgp-keys",
    )
)
_SEALED = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime"))
_TNEF = frozenset(("application/ms-tnef", "application/vnd.ms-tnef"))
_MAILS = frozenset(("message/rfc822", "message/global"))
_NO_PROSE = frozenset(("text/css", "text/javascript", "text/rtf", "text/richtext", "text/vcard", "text/x-vcard"))
_TEXTUAL = frozenset(("text", "markdown", "html", "csv", "json", "code"))
_HTML = frozenset(("text/html", "application/xhtml+xml"))
Inner = Callable[[bytes, str], ParsedDocument]
"""Parses an attachment by its bytes and its name."""


def parse(data: bytes, name: str, inner: Inner) -> ParsedDocument:
    """A mail; kind `html` for a web page archive, `text` for a file without a mail's header.

    Args:
        data: the whole mail.
        name: its file name.
        inner: parses attachments; what it raises as `RejectedInput` becomes a warning.
    """
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    start = mail_start(data)
    top = entity(data, start, len(data))
    if not top.fields.are_of_mail:
        return text.parse(data, name)
    if _is_archive(top, name) and (page := _page(top)) is not None:
        return page
    document, parts = _Mail(top, inner, _Budget()).read()
    return replace(document, parts=tuple(parts))


@dataclass(slots=True)
class _Budget:
    """What is left to be read of one source."""

    parts: int = PARTS_MAX
    entities: int = ENTITIES_MAX
    depth: int = DEPTH_MAX


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A part that isn't a multipart."""

    role: Literal["plain", "html", "invitation", "file"]
    entity: Entity
    text: str = ""
    """Plain text and invitations: decoded. HTML is decoded only if it's chosen."""

    @property
    def is_body(self) -> bool:
        """Whether it holds something to read in place."""
        return bool(self.text.strip()) if self.role == "plain" else self.role == "html"


@dataclass(slots=True)
class _Mail:
    """One mail while it's read."""

    top: Entity
    inner: Inner
    budget: _Budget
    parts: list[Part] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    pictures: list[str] = field(default_factory=list)
    surplus: int = 0
    warnings: dict[str, None] = field(default_factory=dict)
    """In order, each once."""

    def read(self) -> tuple[ParsedDocument, list[Part]]:
        """The mail itself and what it holds."""
        fields = self.top.fields
        subject = fields.text("subject")
        writer = Writer()
        if subject:
            writer.heading(subject)
        leaves = self.visit(self.top, 0)
        for leaf in leaves:
            self.write(leaf, writer)
        for number, leaf in enumerate((leaf for leaf in leaves if leaf.role == "file"), start=1):
            self.attach(leaf, number)
        if self.pictures:
            more = ", …" if len(self.pictures) > PICTURES_MAX else ""
            self.warn(f"pictures aren't read: {', '.join(self.pictures[:PICTURES_MAX])}{more}")
        if self.surplus:
            self.warn(f"{self.surplus} more attachments aren't read; {PARTS_MAX} are, mails inside included")
        document = ParsedDocument(
            kind="eml",
            text=writer.text,
            title=subject,
            blocks=tuple(writer.blocks),
            metadata=_metadata(self.top),
            warnings=tuple(self.warnings)[:WARNINGS_MAX],
        )
        return document, self.parts

    def warn(self, message: str) -> None:
        self.warnings.setdefault(message)

    def visit(self, part: Entity, depth: int) -> list[_Leaf]:
        """The leaves of a part in order, without the alternatives that aren't chosen."""
        self.budget.entities -= 1
        if part.fields.content_type.startswith("multipart/"):
            return self.multipart(part, depth)
        return [leaf] if (leaf := self.leaf(part, is_top=depth == 0)) else []

    def multipart(self, part: Entity, depth: int) -> list[_Leaf]:
        kind = part.fields.content_type
        if kind == "multipart/encrypted":
            self.warn("the mail is encrypted; only what its header says is read")
            return []
        if depth >= MULTIPART_DEPTH_MAX:
            self.warn(f"multiparts nested more than {MULTIPART_DEPTH_MAX} deep aren't read")
            return []
        branches: list[list[_Leaf]] = []
        for child in part.parts():
            if self.budget.entities <= 0:
                self.warn(f"what follows the first {ENTITIES_MAX} MIME parts isn't read")
                break
            branches.append(self.visit(child, depth + 1))
        if kind == "multipart/alternative":
            branches = _chosen(branches)
        elif not branches and (leaf := self.plain(part)):
            return [leaf]
        return [leaf for branch in branches for leaf in branch]

    def leaf(self, part: Entity, *, is_top: bool) -> _Leaf | None:
        """What a part is to the reader of the mail."""
        kind = part.fields.content_type
        is_file = part.fields.disposition == "attachment" or (bool(part.fields.filename) and not is_top)
        if kind == "text/calendar" and part.fields.disposition != "attachment":
            return self.plain(part, "invitation")
        if is_file or kind in _NO_PROSE or kind in _MAILS:
            return _Leaf("file", part)
        if kind in _HTML:
            return _Leaf("html", part)
        return self.plain(part) if kind.startswith(("text/", "message/")) else _Leaf("file", part)

    def plain(self, part: Entity, role: Literal["plain", "invitation"] = "plain") -> _Leaf | None:
        """A part of plain text, decoded; None if it isn't text."""
        try:
            decoded, notes = part.text()
        except RejectedInput as error:
            self.warn(f"a part of type {part.fields.content_type} is left out: it {error.message}")
            return None
        for note in notes:
            self.warn(note)
        if part.fields.parameter("format").lower() == "flowed":
            decoded = bodies.unflowed(decoded, joins_words=part.fields.parameter("delsp").lower() == "yes")
        decoded, is_encrypted = bodies.without_armor(decoded)
        if is_encrypted:
            self.warn("a message encrypted with PGP is left out")
        return _Leaf(role, part, decoded)

    def write(self, leaf: _Leaf, writer: Writer) -> None:
        """Append what is read in place."""
        if leaf.role == "plain" and leaf.text.strip():
            writer.include(leaf.text, bodies.blocks(leaf.text))
        elif leaf.role == "invitation" and (lines := bodies.invitation(leaf.text)):
            writer.add("paragraph", lines)
        elif leaf.role == "html":
            try:
                page = html.parse(_as_utf8(leaf.entity), "")
            except RejectedInput as error:
                self.warn(f"the HTML form is left out: it {error.message}")
                return
            if page.text:
                writer.include(page.text, page.blocks)
            for note in page.warnings:
                self.warn(note)

    def attach(self, leaf: _Leaf, number: int) -> None:
        """Read an attachment into parts, or say why not."""
        fields = leaf.entity.fields
        name = segment(fields.filename.replace("\\", "/").rpartition("/")[2])
        name = name or f"part {number}.{ending(fields.content_type)}"
        reason = _unread(fields.content_type, name)
        if fields.content_type in _SIGNATURES or name.lower() == "smime.p7s":
            return
        if fields.content_type.startswith("image/"):
            self.pictures.append(name)
        elif reason:
            self.warn(f"attachment {name} is left out: {reason}")
        elif not self.budget.parts:
            self.surplus += 1
        else:
            self.budget.parts -= 1
            try:
                self.open(leaf.entity, name)
            except RejectedInput as error:
                self.warn(f"attachment {name} is left out: {error.message}")

    def open(self, part: Entity, name: str) -> None:
        """Add an attachment that can be read, and what it holds itself."""
        kind = part.fields.content_type
        data = part.body()
        hint = name if extension(name) else f"{name}.{ending(kind)}"
        found = "eml" if kind in _MAILS else detect(data, hint)
        if found == "eml":
            message = entity(data, mail_start(data), len(data))
            if not part.fields.filename:
                subject = segment(message.fields.text("subject").replace("/", "_").replace("\\", "_"))
                name = f"{subject or 'message'}.eml"
            document, parts = self.mail_inside(message, name)
        else:
            document = self.inner(_as_utf8(part) if found in _TEXTUAL else data, hint)
            parts = list(document.parts[: self.budget.parts])
            self.surplus += len(document.parts) - len(parts)
            self.budget.parts -= len(parts)
        own = self.names.unique(name)
        if document.text.strip() or document.header.strip():
            self.parts.append(Part(own, replace(document, parts=())))
        self.parts += [Part(f"{own}/{one.name}", one.document) for one in parts]

    def mail_inside(self, message: Entity, name: str) -> tuple[ParsedDocument, list[Part]]:
        """A mail that is attached, and its parts."""
        if not self.budget.depth:
            raise RejectedInput("nested_mail", f"mails inside mails are read {DEPTH_MAX} deep")
        if not message.fields.are_of_mail:
            return text.parse(message.data, name), []
        if _is_archive(message, name) and (page := _page(message)) is not None:
            return page, []
        self.budget.depth -= 1
        document, parts = _Mail(message, self.inner, self.budget).read()
        self.budget.depth += 1
        if not document.text.strip() and not parts:
            raise RejectedInput("empty_file", f"{name} holds no text")
        return document, parts


def _chosen(branches: list[list[_Leaf]]) -> list[list[_Leaf]]:
    """Of alternatives the first with plain text, else the last with a body; the others' files and dates stay."""
    with_text = [
        i for i, leaves in enumerate(branches) if any(leaf.role == "plain" and leaf.is_body for leaf in leaves)
    ]
    with_body = [i for i, leaves in enumerate(branches) if any(leaf.is_body for leaf in leaves)]
    best = with_text[0] if with_text else with_body[-1] if with_body else -1
    return [
        [leaf for leaf in leaves if i == best or leaf.role in {"file", "invitation"}]
        for i, leaves in enumerate(branches)
    ]


def _as_utf8(part: Entity) -> bytes:
    """A text as UTF-8 if the mail says its character set; else as it is, since the text itself may say it."""
    try:
        return part.text()[0].encode("utf-8") if part.codec else part.body()
    except RejectedInput:
        return part.body()


def _unread(kind: str, name: str) -> str:
    """Why an attachment of this kind can't be read; empty if it can be tried."""
    if kind in _SEALED or name.lower().endswith(".p7m"):
        return "it is encrypted or sealed with S/MIME"
    if kind in _TNEF or name.lower() == "winmail.dat":
        return "it is in Outlook's own format (TNEF)"
    return "it is encrypted with PGP" if kind == "application/pgp-encrypted" else ""


def _metadata(mail: Entity) -> Entries:
    """Who wrote to whom and when. `author` is a name where there is one; addresses are in `from` and `recipients`."""
    fields = mail.fields
    sender = next(iter(fields.addresses("from")), ("", ""))
    to, cc = fields.addresses("to"), fields.addresses("cc")
    moment = fields.moment("date")
    return describe(
        {
            "title": fields.text("subject"),
            "author": sender[0] or sender[1],
            "from": sender[1],
            "to": [_shown(one) for one in to],
            "cc": [_shown(one) for one in cc],
            "recipients": [address for _, address in (*to, *cc) if address],
            "created": moment,
            "date": "" if moment else fields.text("date"),
            "message_id": fields.text("message-id").strip("<>"),
            "in_reply_to": fields.text("in-reply-to").partition(" ")[0].strip("<>"),
            "language": fields.text("content-language"),
            "keywords": fields.text("keywords"),
        }
    )


def _shown(one: tuple[str, str]) -> str:
    name, address = one
    return f"{name} <{address}>" if name and address else name or address


def _is_archive(top: Entity, name: str) -> bool:
    """Whether this is a web page that a browser saved with its pictures."""
    fields = top.fields
    is_saved = bool(fields.raw("snapshot-content-location")) or fields.raw("from").startswith("<Saved by")
    return is_saved or extension(name) in {"mht", "mhtml"}


def _page(top: Entity) -> ParsedDocument | None:
    """The page of an archive: its first HTML; frames, styles and pictures are left out. None if it holds none."""
    entities = islice(_entities(top, 0), ENTITIES_MAX)
    page = next((part for part in entities if part.fields.content_type in _HTML), None)
    if page is None:
        return None
    document = html.parse(_as_utf8(page), "")
    title = document.title or top.fields.text("subject")
    where = top.fields.text("snapshot-content-location") or page.fields.text("content-location")
    told: dict[object, object] = {
        "title": title,
        "url": where if "://" in where else "",
        "saved": top.fields.moment("date"),
    }
    return replace(document, title=title, metadata=describe(told | dict(document.metadata)))


def _entities(part: Entity, depth: int) -> Iterator[Entity]:
    yield part
    if part.fields.content_type.startswith("multipart/") and depth < MULTIPART_DEPTH_MAX:
        for child in part.parts():
            yield from _entities(child, depth + 1)
