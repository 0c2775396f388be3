"""Messages to workers through Celery: one task a stage, ids only, queues by what a stage waits for.

The broker may lose, repeat and delay messages (measured for Redis: two of 30,000 lost and nine repeated over 25 killed
workers, late acknowledgement and all); the ledger owns the work, so nothing here retries, stores results or chains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from pipeline.errors import RejectedInput, Unavailable
from pipeline.types import ContextSlug
from pipeline.units import Token

RESERVED, CONTROL = "small", "control"
"""Queue of small runs, and that of tasks which keep the fleet in order."""
PREFIX = "lamina."
RECONCILE, OPTIMIZE, PUBLISH, FSCK = "reconcile", "optimize", "publish", "fsck"
"""Tasks beside the stages."""

HARD_LIMIT_GRACE_S = 60.0
"""A hung body stops renewing its lease at the unit's limit; so much later its process is ended."""
CHORE_S = 60.0
"""A chore that nobody has begun by then is forgotten; `reconcile` asks for it again."""
CHECK_S = 5.0
"""How long the broker may take to answer when it is only asked whether it does."""
VISIBILITY_FACTOR = 3
"""A message is given to another worker after this many hard limits (DESIGN §4, invariant 10)."""


def hard_limit_s(unit_limit_s: float) -> float:
    """When a task's process is ended whatever it does."""
    return unit_limit_s + HARD_LIMIT_GRACE_S


def configuration(broker_url: str, unit_limit_s: float) -> dict[str, Any]:
    """Celery's settings. Each that differs from the default does so for a loss, a loop or a leak that was measured."""
    hard = hard_limit_s(unit_limit_s)
    return {
        "broker_url": broker_url,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_FACTOR * hard,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "socket_keepalive": True,
            "socket_timeout": 30.0,
            "socket_connect_timeout": 10.0,
        },
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.4, "interval_max": 1},
        # A killed worker's message comes back; whether its unit still needs anybody, the ledger knows.
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,  # a task that kills its worker would come back for ever
        "task_acks_on_failure_or_timeout": True,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_time_limit": hard,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": PREFIX + CONTROL,
        "task_create_missing_queues": True,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # on Redis it loses the task
        "worker_max_tasks_per_child": 500,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": True,
        "worker_proc_alive_timeout": 60.0,  # a slow machine's children load models before they answer
        "timezone": "UTC",
    }


class CeleryDispatch:
    """Sends tokens and chores to workers."""

    def __init__(self, broker_url: str, unit_limit_s: float, queues: Mapping[str, str]) -> None:
        """Connects with the first message.

        Args:
            broker_url: where messages go.
            unit_limit_s: longest a unit may take.
            queues: stage to what it waits for.
        """
        self._queues = queues
        self._app = Celery("lamina", set_as_current=False)
        self._app.conf.update(configuration(broker_url, unit_limit_s))

    def send(self, token: Token) -> None:
        """See the port."""
        queue = RESERVED if token.reserved else self._queues[token.stage]
        self._send(token.stage, (token.run, token.lane, token.seq), queue)

    def finished(self, context: ContextSlug) -> None:
        """See the port."""
        self._send(OPTIMIZE, (context,), CONTROL)

    def publish(self, context: ContextSlug) -> None:
        """See the port."""
        self._send(PUBLISH, (context,), "store", expires=CHORE_S)

    def check(self) -> None:
        """See the port."""
        self._guarded(lambda: self._app.connection_for_write().ensure_connection(max_retries=1, timeout=CHECK_S))

    def _send(self, task: str, args: tuple[object, ...], queue: str, expires: float | None = None) -> None:
        self._guarded(lambda: self._app.send_task(PREFIX + task, args=args, queue=PREFIX + queue, expires=expires))

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except (OperationalError, KombuError, OSError) as error:
            raise Unavailable(
                "broker_away",
                f"the broker does not answer ({type(error).__name__})",
                remedy="is it running? what stands in the ledger is sent once it is back",
            ) from None  # its message may hold the broker's address, and that a password

    def close(self) -> None:
        """Release the connections. May be repeated."""
        self._app.close()


def require_queues(given: str, known: frozenset[str]) -> tuple[str, ...]:
    """Queue names of a comma-separated list, checked.

    Raises:
        RejectedInput: there is no such queue.
    """
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    unknown = sorted(set(names) - known)
    if unknown or not names:
        raise RejectedInput(
            "bad_queue",
            f"there is no queue {', '.join(unknown) or '(none given)'}",
            remedy="use " + ", ".join(sorted(known)),
        )
    return names
