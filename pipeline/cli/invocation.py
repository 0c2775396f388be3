"""What one call of `lamina` works with: its console, and settings and ports once a verb asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import typer

from pipeline.console import Console
from pipeline.ports import Ports
from pipeline.settings import Settings, load
from pipeline.types import ContextSlug


@dataclass(slots=True)
class Invocation:
    """One call. Ports open with the first verb that touches them and close when the call ends."""

    environ: Mapping[str, str]
    """Handed to `settings.load`, looked at nowhere else."""
    folder: Callable[[], Path]
    """The current folder."""
    console: Console = field(default_factory=Console)
    debug: bool = False
    workers: int = 0
    """Overrides the setting unless 0."""
    _settings: Settings | None = None
    _ports: Ports | None = None

    @property
    def settings(self) -> Settings:
        """The settings in effect.

        Raises:
            RejectedInput: they can't be used.
        """
        if self._settings is None:
            held = load(self.environ, self.folder())
            self._settings = replace(held, workers=self.workers) if self.workers else held
        return self._settings

    @property
    def ports(self) -> Ports:
        """The deployment.

        Raises:
            PipelineError: see `bootstrap.build`.
        """
        if self._ports is None:
            from pipeline import bootstrap  # noqa: PLC0415  # adapters are for verbs that use them

            self._ports = bootstrap.build(self.settings)
        return self._ports

    def context_folder(self, slug: ContextSlug) -> Path:
        """Where a context's own files stand."""
        from pipeline import bootstrap  # noqa: PLC0415  # as above

        return bootstrap.context_folder(self.settings, slug)

    def staged_folder(self, slug: ContextSlug) -> Path:
        """Where a staged context's sources stand."""
        from pipeline import bootstrap  # noqa: PLC0415  # as above

        return bootstrap.staged_folder(self.settings, slug)

    def close(self) -> None:
        """Release what was opened."""
        if self._ports is not None:
            from pipeline import bootstrap  # noqa: PLC0415  # as above

            bootstrap.close(self._ports)
            self._ports = None


def invocation(context: typer.Context, *, as_json: bool) -> Invocation:
    """The call that a verb belongs to, with standard output as its --json says."""
    held = cast("Invocation", context.obj)
    held.console.as_json = as_json
    return held
