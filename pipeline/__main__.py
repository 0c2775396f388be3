"""The command `lamina`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pipeline.cli.app import run


def main() -> None:
    """Run the command that the process was started with and end with its exit status."""
    sys.exit(run(sys.argv[1:], os.environ, Path.cwd))


if __name__ == "__main__":
    main()
