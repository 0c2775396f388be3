"""Which names an import takes, and which two are one."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.archives import ImportLimits
from pipeline.errors import RejectedInput
from pipeline.import_names import TakenNames, bytes_of, checked, collision_key, folders_above, passed_over

LIMITS = ImportLimits()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a.md", "a.md"),
        (b"good/./two.md", "good/two.md"),
        (b"./a//b/./c.md", "a/b/c.md"),
        (b"-rf", "-rf"),
        (b".hidden", ".hidden"),
        (b" leading.md", " leading.md"),
        (b'what?*<>|".md', 'what?*<>|".md'),
        (b"console.md", "console.md"),
        (b"com10.md", "com10.md"),
        (b"a..b.md", "a..b.md"),
        ("e\u0301.md".encode(), "\u00e9.md"),
        ("\u0430\u200d\U0001f468.md".encode(), "\u0430\u200d\U0001f468.md"),
        (b"Gr\xf6\xdfe.md", "Gr\udcf6\udcdfe.md"),
        (b"x" * 255, "x" * 255),
        (b"/".join([b"d"] * 32), "/".join(["d"] * 32)),
    ],
)
def test_accepted(raw: bytes, path: str) -> None:
    """Names come in NFC without empty parts and dots; bytes that aren't UTF-8 stay what they are."""
    assert checked(raw, "", LIMITS) == path
    assert checked(raw, "in", ImportLimits(depth=33)) == f"in/{path}"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no name"),
        (b".", "no name"),
        (b"./.", "no name"),
        (b"..", "leaves the folder"),
        (b"../evil.md", "leaves the folder"),
        (b"ok/../../up.md", "leaves the folder"),
        (b"ok/../stays.md", "leaves the folder"),
        (b"/abs.md", "absolute"),
        (b"//server/share.md", "absolute"),
        (b"..\\win.md", "backslash"),
        (b"a\\b.md", "backslash"),
        (b"C:\\drive.md", "backslash"),
        (b"C:drive.md", "drive"),
        (b"c:/drive.md", "drive"),
        (b"a.md:stream", "colon"),
        (b"a\x00.md", "NUL"),
        (b"a\n.md", "control"),
        (b"\x1b[31m.md", "control"),
        (b"a\x7f", "control"),
        ("a\u0085.md".encode(), "control"),
        ("a\u2028.md".encode(), "control"),
        ("a\u202egnp.md".encode(), "direction"),
        ("\u2066a.md".encode(), "direction"),
        (b"dot.", "ends in a dot"),
        (b"folder./a.md", "ends in a dot"),
        (b"...", "ends in a dot"),
        (b".. /a.md", "ends in a dot or a space"),
        (b"space ", "ends in a dot or a space"),
        (b"CON", "reserved"),
        (b"con.txt", "reserved"),
        (b"nul.tar.gz", "reserved"),
        (b"a/LPT1.md", "reserved"),
        (b"COM0", "reserved"),
        (b"aux .txt", "reserved"),
        ("com\u00b9.txt".encode(), "reserved"),
        (b"x" * 256, "255 bytes"),
        ("\u00e9".encode() * 128, "255 bytes"),
        (b"/".join([b"d"] * 33), "deeper than 32"),
        (b"/".join([b"x" * 100] * 11), "1,024 bytes"),
    ],
)
def test_refused(raw: bytes, reason: str) -> None:
    """What any file system would read as something else, or as a place outside, is refused with a reason."""
    with pytest.raises(RejectedInput, match=re.escape(reason)) as error:
        checked(raw, "", LIMITS)
    assert error.value.code == "unsafe_name"


def test_lengths_count_the_folder_to_import_into() -> None:
    assert checked(b"a" * 20, "b" * 9, ImportLimits(name_bytes=30))
    with pytest.raises(RejectedInput, match="30 bytes"):
        checked(b"a" * 21, "b" * 9, ImportLimits(name_bytes=30))


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda s: s.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_taken_or_refused(raw: bytes) -> None:
    """Whatever is accepted stays inside the folder, and accepting it again changes nothing."""
    try:
        path = checked(raw, "", LIMITS)
    except RejectedInput:
        return
    parts = path.split("/")
    assert path
    assert not {"", ".", ".."} & set(parts)
    assert not set("\\:\x00") & set(path)
    assert unicodedata.is_normalized("NFC", path)
    assert checked(bytes_of(path), "", LIMITS) == path


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("__MACOSX/a.md", "macOS"),
        ("pack/__MACOSX/._a.md", "macOS"),
        ("a/._b.md", "macOS"),
        ("a/.DS_Store", ".DS_Store is never read"),
        (".git/config", ".git is never read"),
        ("a.md", ""),
        ("MACOSX/a.md", ""),
        ("a._b", ""),
    ],
)
def test_left_out(path: str, told: str) -> None:
    reason = passed_over(path, frozenset({b".git", b".DS_Store"}))
    assert (told in reason) if told else not reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A.md", "a.MD"),
        ("stra\u00dfe.md", "STRASSE.md"),
        ("\u00e9.md", "e\u0301.md"),
        ("a/b", "A/B"),
        ("a./b ", "a/b"),
        ("\u212a.md", "k.md"),
    ],
)
def test_names_that_are_one(one: str, other: str) -> None:
    assert collision_key(one) == collision_key(other)


def test_names_that_are_two() -> None:
    assert len({collision_key(p) for p in ("a.md", "a/md", "b.md", "\u0430.md", ".a", "a", "..a")}) == 7


def test_folders_above() -> None:
    assert list(folders_above("a/b/c")) == ["a/b", "a"]


def test_a_name_is_given_away_once() -> None:
    """A second file of a name, or a file and a folder of one name, is refused and both are named."""
    names = TakenNames()
    names.claim("Docs/a.md", "pack.zip!/Docs/a.md")
    names.claim("docs/b.md", "other.md")
    for path in ("docs/A.md", "DOCS", "docs/a.md/c.md"):
        with pytest.raises(RejectedInput) as error:
            names.claim(path, "late.md")
        assert error.value.code == "same_name"
        assert "pack.zip!/Docs/a.md and late.md" in error.value.message
