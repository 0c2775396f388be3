"""What the adapters on S3 share: where the bucket is, a client for each process, and S3's errors as ours."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pipeline.errors import PipelineError, RejectedInput, Unavailable

CONNECT_S = 5
READ_S = 60
ATTEMPTS = 4
"""Tries of one request, the first included; each is bounded by the two times above."""

MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
REFUSED = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "401", "ExpiredToken"})
EXISTS = frozenset({"PreconditionFailed", "412"})
RACED = frozenset({"ConditionalRequestConflict", "409", "OperationAborted"})


@dataclass(frozen=True, slots=True)
class S3Settings:
    """One bucket, and how to reach it. Without keys, credentials come from where boto3 looks for them."""

    bucket: str
    prefix: str = ""
    """Of every key, with a '/' at its end unless empty."""
    endpoint_url: str = ""
    """Of a server other than AWS'."""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)


class S3Client:
    """One client a process, made with the first call; a forked child makes its own. Threads may share it."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self._held: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        """The client."""
        with self._lock:
            if self._held is None or self._held[0] != os.getpid():
                self._held = (os.getpid(), self._made())
            return self._held[1]

    def _made(self) -> Any:
        given = self.settings
        own = bool(given.endpoint_url)
        try:
            session = boto3.session.Session(
                aws_access_key_id=given.access_key or None,
                aws_secret_access_key=given.secret_key or None,
                region_name=given.region or ("us-east-1" if own else None),
            )
            return session.client(
                "s3",
                endpoint_url=given.endpoint_url or None,
                config=Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                    s3={"addressing_style": "path" if own else "auto"},
                    # Newer botocore adds checksums of its own in trailers, which older S3 servers refuse; ours are SHA-256.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
        except (BotoCoreError, ValueError) as error:
            raise RejectedInput(
                "bad_settings",
                f"the S3 settings can't be used: {type(error).__name__}",
                remedy="check objects_url, s3_endpoint_url, s3_region and the keys",
            ) from None

    def key(self, name: str) -> str:
        """A key inside the bucket."""
        return self.settings.prefix + name


def code_of(error: Exception) -> str:
    """S3's own code; empty for an error that isn't its answer."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def translate(error: Exception, bucket: str) -> PipelineError:
    """Botocore's exceptions as ours. Messages name the bucket, never a key of ours."""
    code = code_of(error)
    if code in REFUSED:
        return Unavailable(
            "unauthorized",
            f"bucket {bucket} refuses these credentials ({code})",
            remedy="correct the keys, or the bucket's policy",
        )
    if code == "NoSuchBucket":
        return RejectedInput("no_bucket", f"there is no bucket {bucket}", remedy="make it, or correct objects_url")
    told = code or type(error).__name__
    return Unavailable(
        "object_store_unavailable", f"bucket {bucket} does not answer as it should ({told})", remedy="try again"
    )
