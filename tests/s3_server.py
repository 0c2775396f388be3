"""A server that speaks S3 on loopback (moto's), one for the process; each caller gets an empty bucket."""

from __future__ import annotations

import atexit
import itertools
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

from pipeline.adapters.s3_client import S3Client, S3Settings

_NUMBERS = itertools.count(1)
_STARTED: list[str] = []


def endpoint() -> str:
    """The server's address; it is started when it is first asked for and ends with this process."""
    if not _STARTED:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        atexit.register(process.kill)
        end = time.monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < end, "the S3 server did not start"
            time.sleep(0.05)
        _STARTED.append(f"http://127.0.0.1:{port}")
    return _STARTED[0]


def fresh_bucket(prefix: str = "") -> S3Settings:
    """Settings of an empty bucket."""
    settings = S3Settings(
        f"bucket-{os.getpid()}-{next(_NUMBERS)}", prefix, endpoint(), "us-east-1", "test-key", "test-secret"
    )
    S3Client(settings)().create_bucket(Bucket=settings.bucket)
    return settings
