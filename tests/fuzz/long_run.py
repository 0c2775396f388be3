"""Break sources of every format for as long as asked, and judge what comes of each.

usage: python tests/fuzz/long_run.py [--seconds 1200] [--seed 1] [--only docx,eml] [--keep FOLDER]

Work is done in child processes, block by block, so that a crash or a hang of native code is a finding, too. Each
finding is printed with what makes it again; the sources themselves go to the folder that --keep names. Exit status 1
if there is any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from generate import source
from soundness import EXTENSIONS, STRATEGIES, judge

from pipeline.chunk import ChunkOptions

BLOCK = 200
"""Sources that one child judges."""
SOURCE_SECONDS = 20
"""A single source that takes longer is a finding."""


def one(seed: int, number: int, extension: str, keep: str) -> str:
    """Make and judge one source; its outcome, or `FINDING` and what went wrong."""
    random = Random(f"{seed}/{number}/{extension}")
    data = source(random, extension)
    target = random.choice((1, 3, 8, 20, 64, 400))
    options = ChunkOptions(target, random.randrange(target) if random.random() < 0.5 else 0, random.random() < 0.7)
    strategy = random.choice(STRATEGIES)
    signal.alarm(SOURCE_SECONDS)
    try:
        return judge(data, f"a.{extension}" if extension else "a", strategy, options)
    except BaseException:  # noqa: BLE001 - whatever it is, it's what the run is for
        if keep:
            Path(keep, f"{seed}-{number}.{extension or 'none'}").write_bytes(data)
        return f"FINDING seed={seed} number={number} extension={extension!r} {strategy} {options}\n{traceback.format_exc()}"
    finally:
        signal.alarm(0)


def block(seed: int, first: int, extension: str, keep: str, answers: multiprocessing.Queue) -> None:
    """Judge a block of sources of one format; the outcomes counted, findings whole."""

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"more than {SOURCE_SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    found: Counter[str] = Counter()
    for number in range(first, first + BLOCK):
        answers.put(("at", number))
        found[one(seed, number, extension, keep)] += 1
    answers.put(("done", found))


def main() -> int:
    """Run until the time is up; print a table by format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", default="")
    asked = parser.parse_args()
    extensions = tuple(asked.only.split(",")) if asked.only else EXTENSIONS
    end = time.monotonic() + asked.seconds
    outcomes: dict[str, Counter[str]] = {extension: Counter() for extension in extensions}
    findings: list[str] = []
    first = 0
    while time.monotonic() < end:
        for extension in extensions:
            found = _child(asked.seed, first, extension, asked.keep)
            for outcome, times in found.items():
                if outcome.startswith("FINDING"):
                    findings.append(outcome)
                    print(outcome, flush=True)
                    outcome = "finding"  # noqa: PLW2901 - counted under its kind
                outcomes[extension][outcome] += times
            if time.monotonic() >= end:
                break
        first += BLOCK
    for extension, counted in outcomes.items():
        print(
            f"{extension or '(none)':9}{counted.total():8}  " + ", ".join(f"{k} {v}" for k, v in counted.most_common())
        )
    total = sum(counted.total() for counted in outcomes.values())
    print(f"{total} sources, {len(findings)} findings, seed {asked.seed}")
    return 1 if findings else 0


def _child(seed: int, first: int, extension: str, keep: str) -> Counter[str]:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=block, args=(seed, first, extension, keep, answers))
    process.start()
    at, found = first, Counter[str]()
    while True:
        try:
            kind, value = answers.get(timeout=2 * SOURCE_SECONDS)
        except Exception:  # noqa: BLE001 - empty: it hangs in native code, or is gone
            process.kill()
            found[f"FINDING seed={seed} number={at} extension={extension!r} hangs or died"] += 1
            break
        if kind == "done":
            found = value
            break
        at = value
    process.join()
    return found


if __name__ == "__main__":
    sys.exit(main())
