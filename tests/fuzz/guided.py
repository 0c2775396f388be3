"""Coverage-guided fuzzing of parsers and chunkers with atheris, which is installed by hand: pip install atheris.

usage: python tests/fuzz/guided.py CORPUS_FOLDER -max_total_time=1200 -max_len=4096 [further options of libFuzzer]

The first byte of an input chooses the file's extension, the second strategy and sizes, the rest is the source. Seed the
corpus with small files of each format: python tests/fuzz/guided.py --seeds CORPUS_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

with atheris.instrument_imports(include=["pipeline.parse", "pipeline.chunk"]):
    from soundness import EXTENSIONS, STRATEGIES, judge

    from pipeline.chunk import ChunkOptions

TARGETS = (1, 7, 24, 400)


def judge_input(data: bytes) -> None:
    """Judge what libFuzzer made."""
    if len(data) < 3:
        return
    extension = EXTENSIONS[data[0] % len(EXTENSIONS)]
    choice = data[1]
    target = TARGETS[choice % len(TARGETS)]
    options = ChunkOptions(target, target // 3 if choice & 64 else 0, not choice & 128)
    judge(data[2:], f"a.{extension}" if extension else "a", STRATEGIES[choice // 4 % len(STRATEGIES)], options)


def main() -> None:
    """Write seeds, or fuzz."""
    if sys.argv[1:2] == ["--seeds"]:
        from generate import source

        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        for at, extension in enumerate(EXTENSIONS):
            for number in range(3):
                data = source(Random(number), extension)
                Path(sys.argv[2], f"{extension or 'none'}-{number}").write_bytes(bytes((at, number)) + data)
        return
    atheris.Setup(sys.argv, judge_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
