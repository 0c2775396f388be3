"""The lock: what it must name so that the same install works next year."""

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[2] / "requirements.lock"


def locked() -> dict[str, set[str]]:
    """Locked distributions, each with the extras that its line names."""
    lines = re.findall(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): {each for each in extras.split(",") if each} for name, extras in lines}


def wanted(name: str, extras: set[str]) -> list[Requirement]:
    """What one installed distribution needs, with the extras that the lock asks of it."""
    try:
        lines = requires(name) or []
    except PackageNotFoundError:  # locked for another system
        return []
    needs = [Requirement(each) for each in lines]
    return [
        each
        for each in needs
        if any(not each.marker or each.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    ]


def test_every_extra_that_a_locked_package_asks_for_is_named_in_the_lock() -> None:
    """pip refuses a lock of hashes whose line doesn't name the extra, once a release newer than the locked one is out."""
    lock = locked()
    assert len(lock) > 50

    missing = {
        f"{name} asks for {each.name}[{','.join(sorted(each.extras))}]"
        for name, extras in lock.items()
        for each in wanted(name, extras)
        if each.extras - lock.get(canonicalize_name(each.name), set())
    }

    assert not missing, "run `make lock`: " + "; ".join(sorted(missing))
