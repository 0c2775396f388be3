"""What mail programs write into plain text: flowed lines, quotes, signatures, armour, invitations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.types import Block, BlockKind

EVENTS_MAX = 50
"""Events of one invitation or calendar that are read."""

_ARMOR = re.compile(r"^-----BEGIN PGP ([A-Z ]{1,40})-----[ \t]*$", re.MULTILINE)
_ARMOR_END = "\n-----END PGP "
_SIGNATURE = "-- "
_PROPERTY = re.compile(r"([A-Za-z-]{1,40})((?:;[^:;=\n]{1,40}=(?:\"[^\"\n]*\"|[^:;\"\n]*))*):")
_ZONE = re.compile(r";TZID=\"?([^;:\"]{1,60})", re.IGNORECASE)
_MOMENT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})\d{2}(Z?))?")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SHOWN = {"SUMMARY": "summary", "DTSTART": "start", "DTEND": "end", "DUE": "due", "LOCATION": "location"}


def unflowed(text: str, *, joins_words: bool) -> str:
    """Paragraphs of `format=flowed` on one line each, the blank that protects a line's start taken away (RFC 3676).

    Args:
        text: the lines as sent.
        joins_words: the part's `delsp=yes`: the blank at a line's end isn't part of the text.
    """
    lines: list[str] = []
    pieces: list[str] = []
    open_depth = -1
    """Quote depth of the paragraph that goes on; -1 when the last line ended one."""
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        is_signature = content == _SIGNATURE
        if pieces and (depth != open_depth or is_signature):
            lines.append("".join(pieces).rstrip())
            pieces = []
        flows = content.endswith(" ") and not is_signature
        if not pieces:
            pieces.append(">" * depth + " " if depth else "")
        pieces.append(content[:-1] if flows and joins_words else content)
        open_depth = depth if flows else -1
        if not flows:
            whole = "".join(pieces)
            lines.append(whole if is_signature else whole.rstrip())
            pieces = []
    return "\n".join([*lines, "".join(pieces).rstrip()] if pieces else lines)


def blocks(text: str) -> tuple[Block, ...]:
    """Paragraphs between blank lines; lines that start with '>' are quotes, and a signature is a block of its own."""
    found: list[Block] = []
    kind: BlockKind = "paragraph"
    start, at = -1, 0
    for line in text.split("\n"):
        own: BlockKind = "quote" if line.startswith(">") else "paragraph"
        is_blank = not line.strip()
        if start >= 0 and (is_blank or own != kind or line.rstrip() == "--"):
            found.append(Block(kind, start, at))
            start = -1
        if start < 0 and not is_blank:
            kind, start = own, at
        at += len(line) + 1
    if start >= 0:
        found.append(Block(kind, start, len(text)))
    return tuple(found)


def without_armor(text: str) -> tuple[str, bool]:
    """The text without PGP's encrypted or signing blocks, and whether one was an encrypted message."""
    parts: list[str] = []
    at, is_encrypted = 0, False
    while begin := _ARMOR.search(text, at):
        label = begin.group(1)
        if label == "SIGNED MESSAGE":
            after = text.find("\n\n", begin.end(), begin.end() + 200)  # beyond the names of the hashes
            end = after + 1 if after >= 0 else begin.end()
        else:
            last = text.find(_ARMOR_END, begin.end())
            if last < 0:
                break
            end = text.find("\n", last + 1) + 1 or len(text)
            is_encrypted |= label == "MESSAGE"
        parts.append(text[at : begin.start()])
        at = end
    return "".join((*parts, text[at:])), is_encrypted


def invitation(text: str) -> str:
    """Summary, dates and place of a calendar's events, a line each; empty if there are none."""
    inside: list[str] = []
    lines: list[str] = []
    events = 0
    for name, parameters, value in _properties(text):
        if name == "BEGIN":
            inside.append(value.upper())
            if inside[-1] in {"VEVENT", "VTODO"}:
                events += 1
                if events > EVENTS_MAX:
                    break
        elif name == "END":
            del inside[-1:]
        elif name in _SHOWN and inside and inside[-1] in {"VEVENT", "VTODO"}:
            shown = _moment(value, parameters) if name.startswith("D") else _unescaped(value)
            if shown:
                lines.append(f"{_SHOWN[name]}: {shown}")
    return "\n".join(lines)


def _properties(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, parameters and value of each line, folded lines joined."""
    for line in re.sub(r"\n[ \t]", "", text).split("\n"):
        match = _PROPERTY.match(line)
        if match:
            yield match.group(1).upper(), match.group(2), line[match.end() :].strip()


def _moment(value: str, parameters: str) -> str:
    match = _MOMENT.fullmatch(value)
    if match is None:
        return value
    year, month, day, hour, minute, utc = match.groups()
    zone = _ZONE.search(parameters)
    where = " UTC" if utc else f" ({zone.group(1)})" if zone else ""
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{where}" if hour else "")


def _unescaped(value: str) -> str:
    return " ".join(_ESCAPED.sub(lambda m: " " if m.group(1) in "nN" else m.group(1), value).split())
