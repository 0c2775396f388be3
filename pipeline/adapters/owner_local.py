"""Who holds a lease, as a name that this machine can look up: host, process number, and when the process began."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def own_name() -> str:
    """The name under which this process holds leases."""
    return f"{socket.gethostname()}:{os.getpid()}:{_began(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether `owner` is a process of this machine that has ended. A number that was given out again doesn't mislead."""
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    began = owner.rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdigit() or not began.isdigit():
        return False
    now = _began(int(rest))
    return now != began if now else not _exists(int(rest))


def _began(process: int) -> str:
    """Clock ticks from boot to the process's start; empty where the system doesn't tell, or there is no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    # The name, in parentheses, may hold anything; what follows it are fields 3 and on, of which 22 is the start.
    return text.rpartition(")")[2].split()[19]


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's process
    return True
