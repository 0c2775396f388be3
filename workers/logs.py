"""A worker's log: one JSON line an event, with run, stage, outcome and time; nothing of a document, no secret.

Events are written to standard error, from INFO on.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from celery import signals

FIELDS = ("run", "stage", "lane", "outcome", "seconds", "context", "task", "written", "deleted")
"""What an event may carry beside its message."""


class JsonLines(logging.Formatter):
    """Records as JSON, one a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; an exception becomes its type and message, and its trace a field."""
        event: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "process": record.process,
            "event": record.getMessage(),
        }
        event |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


def set_up() -> None:
    """Take the place of Celery's own lines, in the worker and in its processes."""

    def install(**_: Any) -> None:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)
        # What HTTP libraries say at lower levels may show headers, and those hold keys.
        for chatty in ("httpx", "httpcore", "botocore", "boto3", "urllib3", "openai", "pinecone"):
            logging.getLogger(chatty).setLevel(logging.WARNING)

    signals.setup_logging.connect(install, weak=False)
