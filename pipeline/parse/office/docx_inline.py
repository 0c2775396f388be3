"""Text inside Word's paragraphs: runs, fields, notes' marks, equations, symbols, what is drawn; changes as accepted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from pipeline.parse.office.docx_styles import Styles
from pipeline.parse.office.docx_symbols import symbol
from pipeline.parse.office.drawingml import described
from pipeline.parse.office.omml import equation
from pipeline.parse.office.ooxml import child, chosen, is_on

GONE = frozenset(
    (
        "w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:tblPr", "w:tblGrid", "w:trPr", "w:tcPr", "w:tblPrEx", "w:sdtPr",
        "w:sdtEndPr", "w:sectPr", "w:instrText", "w:delText", "w:delInstrText", "w:fldData", "w:customXmlPr",
        "w:smartTagPr", "w:footnoteRef", "w:endnoteRef", "w:annotationRef", "w:rubyPr", "w:softHyphen",
    )
)  # fmt: skip
"""What holds no text of the document as it stands once all changes are accepted."""
_POWER = re.compile(r"\s*[-+\u2212\u2013]?\d+\s*")
_CHARACTERS = {"w:tab": "\t", "w:ptab": "\t", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-"}
_NOTES = {"w:footnoteReference": "footnotes", "w:endnoteReference": "endnotes"}
_DRAWINGS = frozenset(("w:drawing", "w:pict", "w:object"))
_DESCRIBED = frozenset(("wp:docPr", "pic:cNvPr"))

Note = tuple[str, str]
"""Kind and id of a footnote or endnote."""


@dataclass(slots=True)
class Inline:
    """The text of a paragraph, and what hangs on it."""

    pieces: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    """Which pieces are the marks of notes."""
    boxes: list[Element] = field(default_factory=list)
    """Text boxes, charts (`c:chart`) and SmartArt (`dgm:relIds`), to be written after the paragraph."""
    notes: list[Note] = field(default_factory=list)
    """Notes that are referred to, in order."""

    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def unmarked(self) -> str:
        """The text without the marks of notes, as a heading's title has it."""
        marks = frozenset(self.marks)
        return "".join(piece for at, piece in enumerate(self.pieces) if at not in marks)


class InlineReader:
    """Reads paragraphs in order: fields may reach over several."""

    def __init__(self, styles: Styles, number_of: Callable[[Note], str]) -> None:
        """Read nothing yet.

        Args:
            styles: the document's styles, which may hide text.
            number_of: the mark of a note in the text.
        """
        self.left_out: Counter[str] = Counter()
        """What was left out: `hidden` in characters, `prompts` and `graphics` in numbers."""
        self._styles = styles
        self._number_of = number_of
        self._fields: list[bool] = []
        """Open fields, the innermost last; true until a field's result begins."""
        self._instructions = 0
        self._complete: set[int] = set()
        """Ids of the marks that belong to fields with an end; without one a field would swallow all that follows."""
        self._paragraph = Element("")
        self._handlers: dict[str, Callable[[Element, Inline], None]] = {
            "w:r": self._run,
            "w:t": self._words,
            "w:sym": self._symbol,
            "w:fldChar": self._field,
            "w:ruby": self._ruby,
            "m:oMath": self._equation,
            **dict.fromkeys(_NOTES, self._note),
        }

    def prepare(self, story: Element) -> None:
        """Look for the fields of a part, before any of its paragraphs is read. The part must stay in memory."""
        opened: list[list[int]] = []
        for mark in _field_marks(story):
            kind = mark.get("fldCharType", "")
            if kind == "begin":
                opened.append([])
            if opened:
                opened[-1].append(id(mark))
            if kind == "end" and opened:
                self._complete.update(opened.pop())

    def read(self, paragraph: Element, into: Inline) -> None:
        """Append a paragraph's text."""
        around, self._paragraph = self._paragraph, paragraph
        for one in paragraph:
            self._element(one, into)
        self._paragraph = around

    def _element(self, element: Element, into: Inline) -> None:
        tag = element.tag
        if tag in self._handlers:
            self._handlers[tag](element, into)
        elif tag in _CHARACTERS:
            self._text(_CHARACTERS[tag], into)
        elif tag in _DRAWINGS:
            self._drawing(element, into, set())
        elif tag == "w:sdt" and self.is_prompt(element):
            self.left_out["prompts"] += 1
        elif tag not in GONE:
            # Whatever else may stand around text, known or not, is looked into: links, tags, insertions.
            for one in chosen(element) if tag == "mc:AlternateContent" else element:
                self._element(one, into)

    def _run(self, run: Element, into: Inline) -> None:
        if not self._styles.hides(self._paragraph, run):
            if _is_power(run) and "".join(into.pieces[-1:])[-1:].isdigit():
                self._text("^", into)  # 10 to the 6th isn't 106
            for one in run:
                self._element(one, into)
            return
        for one in run:
            if one.tag == "w:fldChar":
                self._field(one, into)
            elif one.tag == "w:t" and not self._instructions:
                self.left_out["hidden"] += len(one.text or "")

    def _words(self, element: Element, into: Inline) -> None:
        self._text((element.text or "").replace("\n", " "), into)

    def _symbol(self, element: Element, into: Inline) -> None:
        self._text(symbol(element.get("font", ""), element.get("char", "")), into)

    def _equation(self, element: Element, into: Inline) -> None:
        self._text(equation(element), into)

    def _note(self, element: Element, into: Inline) -> None:
        note = (_NOTES[element.tag], element.get("id", ""))
        if not self._instructions:
            into.notes.append(note)
            into.marks.append(len(into.pieces))
            self._text(self._number_of(note), into)

    def _text(self, text: str, into: Inline) -> None:
        if not self._instructions:
            into.pieces.append(text)

    def _field(self, mark: Element, into: Inline) -> None:
        del into
        if id(mark) not in self._complete:
            return
        kind = mark.get("fldCharType", "")
        if kind == "begin":
            self._fields.append(True)
            self._instructions += 1
        elif self._fields:
            self._instructions -= self._fields[-1]
            self._fields[-1] = False
            if kind == "end":
                self._fields.pop()

    def _ruby(self, element: Element, into: Inline) -> None:
        """A word, then how it is read, in brackets."""
        word, reading = child(element, "w:rubyBase"), child(element, "w:rt")
        if word is not None:
            self._element(word, into)
        if reading is not None:
            self._text("(", into)
            self._element(reading, into)
            self._text(")", into)

    def _drawing(self, element: Element, into: Inline, told: set[str]) -> None:
        """What a drawing says: descriptions of its pictures in place, its boxes and charts for later."""
        tag = element.tag
        if tag in {"w:txbxContent", "c:chart", "dgm:relIds"}:
            into.boxes.append(element)
            return
        if tag == "a:graphicData" and "chartex" in element.get("uri", ""):
            self.left_out["graphics"] += 1
            return
        words = described(element) if tag in _DESCRIBED else ""
        if tag.startswith("v:"):
            words = element.get("string", "") if tag == "v:textpath" else element.get("alt", "")
        if words and words not in told:
            told.add(words)
            self._text(f" {words} ", into)
        for one in chosen(element) if tag == "mc:AlternateContent" else element:
            self._drawing(one, into, told)

    @staticmethod
    def is_prompt(control: Element) -> bool:
        """Whether a content control holds only the words that ask for content."""
        return is_on(child(control, "w:sdtPr", "w:showingPlcHdr"))


def _is_power(run: Element) -> bool:
    """Whether a run is a raised number."""
    raised = child(run, "w:rPr", "w:vertAlign")
    if raised is None or raised.get("val") != "superscript":
        return False
    return _POWER.fullmatch("".join(one.text or "" for one in run if one.tag == "w:t")) is not None


def _field_marks(story: Element) -> list[Element]:
    """The marks of fields that are met when the story is read, in order."""
    found: list[Element] = []
    ahead = [story]
    while ahead:
        element = ahead.pop()
        if element.tag == "w:fldChar":
            found.append(element)
        elif element.tag not in GONE:
            inner = chosen(element) if element.tag == "mc:AlternateContent" else element
            ahead += reversed(list(inner))
    return found
