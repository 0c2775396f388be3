"""The consumer of a worker: a message that is none is put aside, and the worker lives on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer

LOG = logging.getLogger("lamina.worker")
MEANINGLESS = (TypeError, ValueError, KeyError, AttributeError, IndexError)
"""What Celery stumbles over in a message that nobody of the fleet has sent."""


class GuardedConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's, which would end the worker, and hand the message to the next one."""

    def create_task_handler(self, *given: Any, **named: Any) -> Callable[[Any], None]:
        """What is called with each message."""
        inner = super().create_task_handler(*given, **named)

        def on_task_received(message: Any) -> None:
            try:
                _check(message.headers)
                inner(message)
            except MEANINGLESS as error:
                LOG.warning("meaningless message put aside", extra={"outcome": type(error).__name__})
                message.reject_log_error(LOG, self.connection_errors)

        return on_task_received


def _check(headers: Any) -> None:
    """Refuse headers that Celery would take at their word and fail on later, outside of what is guarded here."""
    for name in ("task", "id"):
        if not isinstance(headers[name], str):
            raise TypeError(name)
    for name in ("eta", "expires"):
        if not isinstance(headers.get(name), str | None):
            raise TypeError(name)
    headers["timelimit"] = [None, None]  # the fleet's own limit holds, whatever a message says
