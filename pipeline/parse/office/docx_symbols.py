# ruff: noqa: RUF001 - signs that look like others are what this table is about
"""Characters that Word takes from symbol fonts, as the letters and signs that they look like."""

from __future__ import annotations

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
"""What the font Symbol shows for A to Z; its small letters follow below."""
_GREEK_SMALL = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SIGNS = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑"
"""From 0xA0 to 0xE5."""
_SYMBOL = {
    **{0x41 + at: letter for at, letter in enumerate(_GREEK)},
    **{0x61 + at: letter for at, letter in enumerate(_GREEK_SMALL)},
    **{0xA0 + at: sign for at, sign in enumerate(_SIGNS)},
    0x22: "∀", 0x24: "∃", 0x27: "∋", 0x2D: "-", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥",
    0xF1: "〉", 0xF2: "∫",
}  # fmt: skip
_WINGDINGS = {
    0x4A: "☺", 0x6C: "●", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x76: "❖", 0xA7: "▪", 0xA8: "◻", 0xD8: "➢", 0xDF: "←",
    0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}
_ASCII = range(0x20, 0x7F)
_PRIVATE = range(0xF000, 0xF100)
"""Where Word keeps the 256 characters of a symbol font."""


def symbol(font: str, code: str) -> str:
    """The character that `w:sym` shows; empty for an ornament that has no like among letters and signs.

    Args:
        font: name of the font.
        code: the character's number in hexadecimal digits.
    """
    try:
        value = int(code, 16)
    except ValueError:
        return ""
    value = value - 0xF000 if value in _PRIVATE else value
    table = _FONTS.get(font.lower())
    if value > 0xFF:  # noqa: PLR2004 - an ordinary character, whatever the font; halves of others are none
        return chr(value) if value < 0xD800 or 0xF8FF < value < 0x110000 else ""  # noqa: PLR2004
    if table is None:
        return ""
    return table.get(value, chr(value) if table is _SYMBOL and value in _ASCII else "")
