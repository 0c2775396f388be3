"""Hold what the commands print against the shared contract.

usage: check_contract.py CONTRACT.py   (the validator; its verbs are `validate SCHEMA FILE`)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ARTIFACTS = {
    "enabled": True,
    "artifact_types": [
        {"name": "part", "kind": "topic"},
        {"name": "summary", "kind": "summary", "scope": "document"},
    ],
    "edge_types": [{"name": "mentions", "from": "summary", "to": "part"}],
}
LAMINA = [sys.executable, "-m", "pipeline"]


def lamina(home: Path, *args: str) -> object:
    """The JSON document that a verb prints."""
    environ = {**os.environ, "LAMINA_HOME": str(home)}
    done = subprocess.run([*LAMINA, *args, "--json"], env=environ, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"lamina {' '.join(args)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> int:
    """Curate a small corpus and validate each document; exit status 1 when one falls short."""
    contract = sys.argv[1]
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        home, corpus = Path(folder, "home"), Path(folder, "corpus")
        corpus.mkdir()
        for n in range(3):
            (corpus / f"d{n}.md").write_text(f"# Title {n}\n\n## Part\n\nbody {n}\n", "utf-8")
        pack = Path(folder, "pack.zip")
        with zipfile.ZipFile(pack, "w") as archive:
            archive.writestr("good.md", "# Good\n\nbody\n")
            archive.writestr("../bad.md", "outside\n")
        (corpus / "bad.pdf").write_bytes(b"%PDF-1.4\nnot a pdf")
        manifest = Path(folder, "manifest.json")
        manifest.write_text(json.dumps({"curate": {"artifacts": ARTIFACTS}}), "utf-8")
        estimate = lamina(home, "profile", str(corpus), "--manifest", str(manifest))
        run = lamina(home, "curate", str(corpus), "--manifest", str(manifest), "--set", "embedder=static")
        runs = lamina(home, "runs", "corpus")
        shown = lamina(home, "show", runs["runs"][0]["run"])  # type: ignore[index]
        documents = [
            ("CurateRunOutput", run),
            ("CurateNoopOutput", lamina(home, "curate", str(corpus))),
            ("CurationState", lamina(home, "ledger", "corpus")),
            ("TaskResponse", shown),
            ("CurateInput", shown["input"]),  # type: ignore[index]
            ("CurateRunOutput", shown["output"]),  # type: ignore[index]
            ("ImportOutput", lamina(home, "import", "staged", str(pack))),
            ("ProfileEstimateOutput", estimate),
            ("ModelCatalog", lamina(home, "models")),
            ("ManifestTemplateCatalog", lamina(home, "manifest", "templates")),
        ]
        for name, document in documents:
            path = Path(folder, "document.json")
            path.write_text(json.dumps(document), "utf-8")
            done = subprocess.run(
                [sys.executable, contract, "validate", name, str(path)], capture_output=True, text=True, check=False
            )
            print(f"{name}: {done.stdout.strip() or done.stderr.strip()}")
            faults += done.returncode != 0
    print(f"contract: {len(documents) - faults} passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
