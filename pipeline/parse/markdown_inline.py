"""What Markdown writes inside lines: plain titles, comments, data addresses. Block structure is `markdown_blocks.py`."""

from __future__ import annotations

import html
import re

DATA_URI = re.compile(
    r"(data:(?:[\w.+-]+/[\w.+-]+)?)(?:;[\w=.+%'*-]+)*;base64,\s*[A-Za-z0-9+/=_%-]{32,}(?:\n[A-Za-z0-9+/=]{32,})*",
    re.IGNORECASE,
)
"""A data address with a payload worth removing; group 1 is what stays."""

_MARKS = frozenset("*_`[]<>&\\!~")
_EMPHASIS = frozenset("*_~")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_IMAGE_OR_LINK = re.compile(
    r"!?\[((?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+[^()]*)?\)|\[[^\]]*\])"
)
_AUTOLINK = re.compile(r"<((?:https?|mailto|ftp):[^<>\s]*)>")
_TAG = re.compile(r"</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>|<!--.*?-->")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1")
_STAR = re.compile(r"\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?!\*)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_(?=[^\s_])(.+?)(?<=[^\s_])_(?![^\W_])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_HELD = re.compile("\x02(\\d+)\x03")
_ANCHOR = re.compile(r"\s*\{#[\w:.-]+\}$")

_OPEN_MASKED = "\x02!--"
_COMMENTS = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?\n)??[ \t>]*(?P=fence)[`~]*[ \t]*$"
    r"|\\[!-/:-@\[-`{-~]"
    r"|(?<!`)(?P<tick>`+)(?!`)(?:[^\n]|\n(?![ \t]*\n))*?(?<!`)(?P=tick)(?!`)"
    r"|(?P<comment><!--(?:-?>|.*?-->))",
    re.MULTILINE | re.DOTALL,
)


def plain(title: str) -> str:
    """A heading's text without markup: emphasis, code marks, links, images, tags, escapes and anchors are undone."""
    if _MARKS.isdisjoint(title) and "{" not in title:
        return " ".join(title.split())
    held: list[str] = []

    def hold(text: str) -> str:
        held.append(text)
        return f"\x02{len(held) - 1}\x03"

    text = title.replace("\x02", "").replace("\x03", "")
    if "`" in text:
        text = _CODE_SPAN.sub(lambda m: hold(m.group(2).strip()), text)
    if "\\" in text:
        text = _ESCAPE.sub(lambda m: hold(m.group(1)), text)
    for _ in range(2 if "[" in text else 0):  # a link whose text is an image needs two passes
        text = _IMAGE_OR_LINK.sub(lambda m: m.group(1), text)
    if "<" in text:
        text = _TAG.sub("", _AUTOLINK.sub(lambda m: hold(m.group(1)), text))
    text = _ANCHOR.sub("", text) if "{" in text else text
    for _ in range(2 if not _EMPHASIS.isdisjoint(text) else 0):  # emphasis inside strong emphasis
        text = _UNDERSCORE.sub(r"\1", _STAR.sub(r"\1", _STRONG.sub(r"\2", text)))
    text = html.unescape(text)
    for _ in range(2 if held else 0):  # a code span may have held an escape
        text = _HELD.sub(lambda m: held[int(m.group(1))], text)
    return " ".join(text.split())


def without_comments(text: str) -> str:
    """Text without its HTML comments; those in code spans and fenced code stay, as does one that is never closed."""
    end = text.rfind("-->")
    if end < 0 or _OPEN_MASKED in text:
        return text
    # Beyond the last '-->' each '<!--' would be searched to the end in vain, which is quadratic in a hostile text.
    masked = text[:end] + text[end:].replace("<!--", _OPEN_MASKED)
    kept = _COMMENTS.sub(lambda m: "" if m.group("comment") else m.group(0), masked)
    return kept.replace(_OPEN_MASKED, "<!--")


def without_payloads(text: str) -> str:
    """Text whose data addresses have lost their base64."""
    return DATA_URI.sub(r"\1", text) if "64," in text else text
