"""A fleet over many sources: messages under way, the broker's memory, and what a second worker brings where work waits.

usage: fleet.py [SOURCES]     (10,000 unless given; prints one JSON line a question)

Real Celery workers of one place each, a real broker, all on this machine. `messages` counts those in all queues, looked
at four times a second; `broker_mb` is what the broker says it uses. `speed-up` runs the artifact leg over 240 sources
against a server that takes 0.4 s to answer, once with one worker and once with two, in fresh homes: seconds from the
first claim to the last end of the stage `extract`.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_processes import Fleet, make_sources
from openai_server import OpenAIServer, completion

from pipeline import bootstrap
from pipeline.settings import load
from pipeline.types import RunId

LOOK_S = 0.25
WAIT_S = 0.4
WAITING_SOURCES = 240
REAL = {"LAMINA_LEASE_S": "30", "LAMINA_RECONCILE_S": "15", "LAMINA_BATCH_SOURCES": "64", "LAMINA_LANES": "16"}
MANIFEST = {
    "curate": {
        "artifacts": {
            "enabled": True,
            "artifact_types": [{"name": "summary", "kind": "summary", "scope": "document"}],
        }
    }
}


def seconds_of(fleet: Fleet, run: str, stage: str) -> float:
    ports = bootstrap.build(load(fleet.environ, fleet.home))
    try:
        with ports.ledger.read() as session:
            found = {s.stage: s for s in session.units.summary(RunId(run))}[stage]
        return found.last_at - found.first_at
    finally:
        bootstrap.close(ports)


def many(folder: Path, count: int) -> dict[str, object]:
    sources = folder / "many"
    make_sources(sources, count)
    with Fleet(folder / "home-many", **REAL) as fleet:
        messages, memory, stop = [], [], threading.Event()

        def look() -> None:
            while not stop.wait(LOOK_S):
                messages.append(fleet.broker.waiting())
                memory.append(fleet.broker.bytes_used() / 1e6)

        for _ in range(2):
            fleet.work()
        watcher = threading.Thread(target=look)
        watcher.start()
        began = time.perf_counter()
        run = fleet.lamina("submit", str(sources), "--context", "many")["run"]
        state = fleet.until_ended(run, 3600)
        spent = time.perf_counter() - began
        stop.set()
        watcher.join()
        tenth = max(1, len(memory) // 10)
        return {
            "question": "many sources",
            "sources": count,
            "state": state,
            "seconds": round(spent, 1),
            "lanes": int(REAL["LAMINA_LANES"]),
            "messages_most": max(messages),
            "broker_mb_first_tenth": round(max(memory[:tenth]), 2),
            "broker_mb_last_tenth": round(max(memory[-tenth:]), 2),
        }


def speed_up(folder: Path) -> dict[str, object]:
    sources = folder / "waiting"
    make_sources(sources, WAITING_SOURCES)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(MANIFEST))

    def answer(_body: object) -> object:
        time.sleep(WAIT_S)
        return completion('{"title": "A document", "body": "It says what it says."}')

    took = {}
    with OpenAIServer(answer) as server:
        for workers in (1, 2):
            more = {
                "LAMINA_LANGUAGE": "openai", "LAMINA_OPENAI_BASE_URL": server.base_url, "LAMINA_OPENAI_API_KEY": "key",
                "LAMINA_OPENAI_MODEL_LITE": "served", "LAMINA_BATCH_SOURCES": "4", "LAMINA_LANES": "16",
            }  # fmt: skip
            with Fleet(folder / f"home-{workers}", **{**REAL, **more}) as fleet:
                for _ in range(workers):
                    fleet.work()
                run = fleet.lamina("submit", str(sources), "--context", "waiting", "--manifest", str(manifest))["run"]
                assert fleet.until_ended(run, 900) == "completed"
                took[workers] = seconds_of(fleet, run, "extract")
    return {
        "question": "speed-up of a second worker at extract",
        "sources": WAITING_SOURCES,
        "seconds_1": round(took[1], 1),
        "seconds_2": round(took[2], 1),
        "speed_up": round(took[1] / took[2], 2),
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as folder:
        for found in (speed_up(Path(folder)), many(Path(folder), count)):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
