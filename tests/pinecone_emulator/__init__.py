"""An emulator of Pinecone for tests: both data APIs, text records, control plane and inference, over one store.

A real HTTP/1.1 server on loopback, made for the official client (wire version 2026-07). It checks keys and limits with
the service's own status codes, makes writes visible after a lag, counts them (LSN), breaks on request (`faults`), and
keeps a journal of every write. What it can't do, it refuses; nothing is silently accepted.

    with PineconeEmulator() as server:
        client = Pinecone(api_key=server.key, host=server.url)

`python -m pinecone_emulator --port 5080` runs one by itself.
"""

from .faults import Fault
from .server import PineconeEmulator
from .store import Behaviour, Write

__all__ = ["Behaviour", "Fault", "PineconeEmulator", "Write"]
