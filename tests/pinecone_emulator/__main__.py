"""Run one emulator until the process is ended: `python -m pinecone_emulator [--address A] [--port N] [--key K]`.

The first line of output is the address. `--lag` and `--seed` set how it behaves; more goes through `/_behaviour`.
"""

from __future__ import annotations

import argparse
import threading

from .server import PineconeEmulator
from .store import Behaviour


def main() -> None:
    options = argparse.ArgumentParser(prog="pinecone_emulator")
    options.add_argument("--address", default="127.0.0.1")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--key", default="test-key")
    options.add_argument("--lag", type=float, default=0.0)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    server = PineconeEmulator(
        Behaviour(lag_s=chosen.lag), key=chosen.key, address=chosen.address, port=chosen.port, seed=chosen.seed
    )
    with server:
        print(server.url, flush=True)  # noqa: T201 - whoever started it reads it
        threading.Event().wait()


if __name__ == "__main__":
    main()
