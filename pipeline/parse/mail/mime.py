"""MIME by lines: header fields, parts between boundaries, transfer encodings, character sets.

What a part means to a reader is decided in `mail.py`.

The standard library's parser isn't used for structure: it recurses into parts and tries each line against every open
boundary, which takes a hostile mail of 2 MB 15 s. Here each level is one search. Single fields and bodies are its work.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cached_property
from unicodedata import category

from pipeline.parse.decode import clean, decode

FIELD_BYTES_MAX = 16 * 1024
"""Bytes of one header field that are read: addresses of a large list, but nothing that is slow to take apart."""
HEAD_BYTES = 4096
"""Bytes at the start by which a mail is recognised."""
FIELDS_MAX = 2_000
"""Header fields that are kept of one part."""
PARAMETERS_MAX = 64
"""Parameters of a content type; a long file name takes a few."""

_NAME = re.compile(rb"([!-9;-~]{1,100})[ \t]*:")
_STRONG = frozenset((b"from", b"received", b"mime-version", b"subject", b"date", b"message-id"))
_ADDRESSED = frozenset((b"to", b"cc", b"sender", b"reply-to", b"return-path", b"content-type"))
_MACHINE = frozenset((b"received", b"mime-version", b"message-id"))
"""Fields that only mail programs write."""
_MARK = codecs.BOM_UTF8
_NEXT_MAIL = re.compile(rb"\n\r?\nFrom [^\n]{1,200}?\d\d:\d\d[^\n]{0,60}\n[!-9;-~]{1,60}:")
_ENCODED_WORD = re.compile(r"=\?([\w.:+-]{1,60})(?:\*[\w-]*)?\?([bBqQ])\?((?:[^?]|\?(?!=))*)\?=")
_ADDRESS_TOKEN = re.compile(
    r"""=\?[^?]*\?[bBqQ]\?[^?]*\?=|"(?:[^"\\]|\\.)*"?|<[^<>]*>?|\([^()]*\)?|[,;:]|[^"<(,;:=]+|.""", re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)")
_FIRST_BOUNDARY = re.compile(rb"^--([^\s-][^\s]{0,69})[ \t]*\r?$", re.MULTILINE)
_NOT_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_SUPERSETS = {
    "ascii": "", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932",
    # Codecs that aren't character sets, the first two quadratic in time.
    "idna": "", "punycode": "", "unicode-escape": "", "unicode_escape": "", "raw-unicode-escape": "", "undefined": "",
}  # fmt: skip
"""Codec to the one that reads the same and what programs write under its name; empty: not to be used."""
_STATEFUL = ("iso2022", "utf-7", "hz", "utf-16", "utf-32")
"""Starts of codecs whose texts may look like ASCII."""
_PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What the standard library raises on header fields that were made to break it."""


class Fields:
    """The header fields of a mail or of one of its parts."""

    def __init__(self, fields: list[tuple[bytes, bytes]], default_type: str = "text/plain") -> None:
        self.fields = fields
        self.default_type = default_type

    @property
    def are_of_mail(self) -> bool:
        """Whether at least one is a field that mails have."""
        return any(name in _STRONG or name in _ADDRESSED for name, _ in self.fields)

    def raw(self, name: str) -> str:
        """The first field of this name on one line, encoded words as they stand; empty if there is none."""
        wanted = name.lower().encode("ascii")
        return next((_line(value) for field, value in self.fields if field == wanted), "")

    def text(self, name: str) -> str:
        """The same, decoded, on one line without control characters."""
        return one_line(decoded_words(self.raw(name)))

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """Display names, decoded, and addresses."""
        pairs = ((one_line(decoded_words(shown)), one_line(address)) for shown, address in _addresses(self.raw(name)))
        return [pair for pair in pairs if any(pair)]

    def moment(self, name: str) -> datetime | None:
        """The date in a field; None if it can't be read."""
        try:
            moment = parsedate_to_datetime(self.raw(name)[:200])
        except _PARSE_ERRORS:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    @cached_property
    def content_type(self) -> str:
        """Type and subtype in lower case; what can't be read is plain text."""
        if not self.raw("content-type"):
            return self.default_type
        try:
            return self._message.get_content_type().split()[0]
        except _PARSE_ERRORS:
            return "text/plain"

    @cached_property
    def disposition(self) -> str:
        """`attachment`, `inline`, or empty."""
        return self.raw("content-disposition").partition(";")[0].strip().lower()

    @cached_property
    def filename(self) -> str:
        """The name that the sender gives a part, decoded."""
        try:
            return one_line(decoded_words(clean(self._message.get_filename() or "")))
        except _PARSE_ERRORS:
            return ""

    def parameter(self, name: str) -> str:
        """A parameter of the content type; empty if there is none."""
        try:
            value = self._message.get_param(name)
            return clean(value[2] if isinstance(value, tuple) else value or "")
        except _PARSE_ERRORS:
            return ""

    @cached_property
    def _message(self) -> Message:
        message = Message()
        for name in ("content-type", "content-disposition"):
            # The library's reading of parameters is quadratic in their number.
            message[name] = ";".join(self.raw(name).split(";")[:PARAMETERS_MAX])
        return message


@dataclass(frozen=True, slots=True)
class Entity:
    """A mail or a part: its fields, and its body as the bytes [start, end) of `data`."""

    fields: Fields
    data: bytes
    start: int
    end: int

    def parts(self) -> Iterator[Entity]:
        """What stands between the boundaries, in order; nothing if there are none."""
        boundary = self.fields.parameter("boundary").rstrip().encode("utf-8")
        default = "message/rfc822" if self.fields.content_type == "multipart/digest" else "text/plain"
        starts = self._delimiters(boundary) if boundary else []
        if not starts and (guess := _FIRST_BOUNDARY.search(self.data, self.start, self.end)):
            starts = self._delimiters(guess.group(1))
        ends = [end for end, _ in starts[1:]] + [self.end]
        for (_, begin), end in zip(starts, ends, strict=False):
            if begin:
                yield entity(self.data, begin, end, default_type=default)

    def body(self) -> bytes:
        """The body, its transfer encoding undone; never longer than it was."""
        raw = self.data[self.start : self.end]
        encoding = self.fields.raw("content-transfer-encoding").strip().lower()
        if encoding == "base64":
            return _from_base64(raw)
        return binascii.a2b_qp(raw) if encoding == "quoted-printable" else raw

    @property
    def codec(self) -> str:
        """The codec that the part declares; empty if there is none that can be used."""
        return _codec(self.fields.parameter("charset"))

    def text(self) -> tuple[str, tuple[str, ...]]:
        """The body as text in the character set that is declared, or in the one that a warning then names.

        Raises:
            RejectedInput: code `undecodable`.
        """
        return _decoded(self.body(), self.codec)

    def _delimiters(self, boundary: bytes) -> list[tuple[int, int]]:
        """Where each part ends before a delimiter, and where the next begins after it; (end, 0) after the last."""
        line = re.compile(rb"^--" + re.escape(boundary) + rb"(--)?[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
        found: list[tuple[int, int]] = []
        for match in line.finditer(self.data, self.start, self.end):
            # The line break before a delimiter belongs to it.
            end = match.start() - self.data.endswith(b"\n", self.start, match.start())
            end -= self.data.endswith(b"\r", self.start, end)
            found.append((end, 0 if match.group(1) else match.end()))
            if match.group(1):
                break
        return found


def entity(data: bytes, start: int, end: int, *, default_type: str = "text/plain") -> Entity:
    """Read the header fields at `start`; the body is what follows them."""
    fields: list[tuple[bytes, bytes]] = []
    name, begin, at = b"", start, start
    while at < end:
        after = data.find(b"\n", at, end) + 1 or end
        if data[at : at + 1] in (b" ", b"\t"):
            if not name or not data[at : min(after, at + FIELD_BYTES_MAX)].strip():
                break
        elif match := _NAME.match(data, at, after):
            _keep(fields, name, data[begin : min(at, begin + FIELD_BYTES_MAX)])
            name, begin = match.group(1).lower(), match.end()
        else:
            break
        at = after
    _keep(fields, name, data[begin : min(at, begin + FIELD_BYTES_MAX)])
    after = data.find(b"\n", at, end) + 1 or end
    body = after if not data[at : min(after, at + FIELD_BYTES_MAX)].strip() else at
    return Entity(Fields(fields, default_type), data, body, end)


def mail_start(data: bytes) -> int:
    """Where the header fields begin: after a byte order mark, blank lines, and the line that mailboxes put before."""
    at = len(_MARK) if data.startswith(_MARK) else 0
    while data[at : at + 1] in (b"\r", b"\n"):
        at += 1
    if data.startswith((b"From ", b">From "), at):
        at = data.find(b"\n", at) + 1 or len(data)
    return at


def looks_like_mail(data: bytes) -> bool:
    """Whether a text starts as mails do: header fields only, two of them typical, and a program's or an address."""
    start = mail_start(data)
    head = data[start : start + HEAD_BYTES]
    if start + len(head) < len(data):
        head = head[: head.rfind(b"\n") + 1]
    message = entity(head, 0, len(head))
    if message.start < len(head) and not head[: message.start].replace(b"\r", b"").endswith(b"\n\n"):
        return False
    found = {name for name, _ in message.fields.fields}
    is_typical = len(found & _STRONG) > 1
    return is_typical and (not found.isdisjoint(_MACHINE) or "@" in message.fields.raw("from"))


def looks_like_mailbox(data: bytes) -> bool:
    """Whether several mails stand one after the other, each under a line that starts with `From `."""
    return data.startswith(b"From ") and looks_like_mail(data) and _NEXT_MAIL.search(data) is not None


def decoded_words(text: str) -> str:
    """A header's text with its encoded words decoded; words of one character set are joined before."""
    parts: list[str] = []
    joined, charset, at = b"", "", 0
    for word in _ENCODED_WORD.finditer(text):
        gap, own = text[at : word.start()], word.group(1).lower()
        if joined and (gap.strip() or own != charset):
            parts.append(_word_text(joined, charset))
            joined = b""
        if gap.strip() or not at:
            parts.append(gap)
        raw = word.group(3).encode("utf-8")
        joined += _from_base64(raw) if word.group(2) in "bB" else binascii.a2b_qp(raw, header=True)
        charset, at = own, word.end()
    return "".join((*parts, _word_text(joined, charset) if joined else "", text[at:]))


def _decoded(data: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    if codec.startswith(_STATEFUL):
        try:
            return clean(data.decode(codec)).replace("\0", " ").removeprefix("\ufeff"), ()
        except UnicodeError:
            codec = ""
    text, warnings = decode(data, codec)
    is_declared = len(warnings) == 1 and bool(codec) and f"read as {codec}," in warnings[0]
    return text, () if is_declared else warnings


def one_line(text: str) -> str:
    """Words with single spaces between them, without control characters."""
    return " ".join("".join(" " if category(c) == "Cc" else c for c in clean(text)).split())


def _keep(fields: list[tuple[bytes, bytes]], name: bytes, value: bytes) -> None:
    if name and len(fields) < FIELDS_MAX:
        fields.append((name, value))


def _line(value: bytes) -> str:
    """A field's value unfolded; bytes that aren't UTF-8 are taken for Western European."""
    value = value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b" ").strip()
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("cp1252", "replace")


def _addresses(field: str) -> Iterator[tuple[str, str]]:
    """Display names, still encoded, and addresses. Linear; nothing is refused, as senders write what they like."""
    words: list[str] = []
    address, comment = "", ""
    for piece in (*_ADDRESS_TOKEN.findall(field), ","):
        if piece in ",;:":
            shown = " ".join("".join(words).split())
            if piece != ":":  # before a colon stands the name of a group
                bare = not address and "@" in shown
                yield ("" if bare else shown) or comment, shown if bare else address
            words, address, comment = [], "", ""
        elif piece[0] == "<":
            address = piece.strip("<> \t")
        elif piece[0] == "(":
            comment = piece.strip("() \t")
        else:
            words.append(_QUOTED_PAIR.sub(r"\1", piece.strip('"')) if piece[0] == '"' else piece)


def _from_base64(data: bytes) -> bytes:
    """What base64 says, whatever stands between its characters and however it ends."""
    pieces = data.translate(None, _NOT_BASE64).split(b"=")
    whole = (piece[: len(piece) - (len(piece) % 4 == 1)] for piece in pieces if piece)
    return b"".join(binascii.a2b_base64(piece + b"=" * (-len(piece) % 4)) for piece in whole)


def _word_text(data: bytes, charset: str) -> str:
    for codec in (_codec(charset), "utf-8"):
        try:
            return data.decode(codec)
        except (UnicodeError, LookupError):
            continue
    return data.decode("cp1252", "replace")


def _codec(charset: str) -> str:
    """The codec for a declared character set; empty if there is none to use."""
    try:
        name = codecs.lookup(charset.strip(" \"'").lower()).name
    except (LookupError, ValueError):
        return ""
    return _SUPERSETS.get(name, name)
