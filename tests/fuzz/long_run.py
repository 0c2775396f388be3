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
from queue import Empty
from random import Random
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from generate import source
from soundness import EXTENSIONS, STRATEGIES, check_chunks, check_document, judge

from pipeline.adapters.parser_sandbox import SandboxedParser, SandboxLimits
from pipeline.chunk import ChunkOptions
from pipeline.errors import RejectedInput

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


def block(seed: int, first: int, last: int, extension: str, keep: str, at: Any, answers: Any) -> None:
    """Judge sources of one format; `at` says which is at work, `answers` gets the outcomes counted, findings whole."""

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"more than {SOURCE_SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    found: Counter[str] = Counter()
    for number in range(first, last):
        at.value = number
        found[one(seed, number, extension, keep)] += 1
    answers.put(found)


def fenced(seed: int, number: int, extension: str) -> str:
    """What becomes of a source that native code hangs on or dies of: in the product it meets the sandbox's limits."""
    data = source(Random(f"{seed}/{number}/{extension}"), extension)
    parser = SandboxedParser(SandboxLimits(wall_seconds=SOURCE_SECONDS, cpu_seconds=SOURCE_SECONDS // 2))
    try:
        document = parser.parse(data, f"a.{extension}")
        check_document(document)
        check_chunks(document, "code", ChunkOptions(64))
    except RejectedInput as error:
        return f"{error.code} (native code)"
    except AssertionError:
        return f"FINDING seed={seed} number={number} extension={extension!r}\n{traceback.format_exc()}"
    finally:
        parser.close()
    return "cut by lines, as the grammar hung"


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
    """A block, gone on with behind each source that its process doesn't survive."""
    context = multiprocessing.get_context("fork")
    total: Counter[str] = Counter()
    last = first + BLOCK
    while first < last:
        at, answers = context.Value("q", first, lock=False), context.Queue()
        process = context.Process(target=block, args=(seed, first, last, extension, keep, at, answers))
        process.start()
        found = _answer(process, at, answers)
        if found is not None:
            return total + found
        process.kill()
        process.join()
        total[fenced(seed, at.value, extension)] += 1
        # What the dead process had counted is lost with it, so it's counted as what it was: judged.
        total["judged before a hang"] += at.value - first
        first = at.value + 1
    return total


def _answer(process: Any, at: Any, answers: Any) -> Counter[str] | None:
    """The outcomes; None when the process is gone, or stays with one source for too long."""
    seen, since = -1, time.monotonic()
    while True:
        try:
            found: Counter[str] = answers.get(timeout=1)
        except Empty:
            if at.value != seen:
                seen, since = at.value, time.monotonic()
            if time.monotonic() - since > 2 * SOURCE_SECONDS or (not process.is_alive() and answers.empty()):
                return None
        else:
            process.join()
            return found


if __name__ == "__main__":
    sys.exit(main())
