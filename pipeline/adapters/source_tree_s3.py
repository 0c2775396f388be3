"""A context's source tree as a prefix of an S3 bucket, read in place.

Keys are names of files: parts between slashes, percent-coded like names of a folder. A `.laminaignore` object directly
under the prefix leaves objects out, by gitignore's syntax. Keys that no file could have (empty parts, `.` and `..`) are
passed over, as are the empty objects that stand for folders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pathspec import GitIgnoreSpec

from pipeline.adapters.s3_client import EXISTS, MISSING, S3Client, S3Settings, code_of, translate
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import decode_path, encode_path
from pipeline.types import SourcePath

IGNORE_FILE = ".laminaignore"
IGNORE_BYTES_MAX = 1_000_000
NEVER = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", "node_modules", ".DS_Store", IGNORE_FILE})
READ_TRIES = 3
SECOND_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class S3SourceTree:
    """`ports.SourceTree` over a prefix."""

    def __init__(self, settings: S3Settings) -> None:
        """Read what stands under the settings' prefix."""
        self._client = S3Client(settings)
        self._bucket = settings.bucket

    def exists(self) -> bool:
        """Whether the bucket is there; a prefix is no thing of its own, and an empty one is an empty folder."""
        try:
            self._client().list_objects_v2(Bucket=self._bucket, Prefix=self._client.settings.prefix, MaxKeys=1)
        except (ClientError, BotoCoreError) as error:
            if code_of(error) == "NoSuchBucket":
                return False
            raise translate(error, self._bucket) from error
        return True

    def walk(self) -> Iterator[SourceStat]:
        """Every object that is not ignored, by path, a thousand at a time.

        S3 lists keys by code point, and so are paths ordered; only an escaped '%' can move a name, and only among those
        that are the same up to it: such names are held until the last of them has come.
        """
        spec, own = self._ignored(), len(self._client.settings.prefix)
        group, held = "", list[SourceStat]()
        for found in self._objects():
            name = found["Key"][own:]
            if not _is_file(name, found) or (spec is not None and spec.match_file(name)):
                continue
            start, percent, _ = name.partition("%")
            if held and start + percent != group:
                yield from sorted(held, key=lambda stat: stat.path)
                held = []
            group = start + percent
            stat = _stat(encode_path(name.encode()), found["Size"], found["LastModified"], found["ETag"])
            if percent:
                held.append(stat)
            else:
                yield stat
        yield from sorted(held, key=lambda stat: stat.path)

    def _objects(self) -> Iterator[dict[str, Any]]:
        try:
            pages = self._client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._client.settings.prefix):
                yield from page.get("Contents", ())
        except (ClientError, BotoCoreError) as error:
            raise translate(error, self._bucket) from error

    def _ignored(self) -> GitIgnoreSpec | None:
        try:
            answer = self._client().get_object(Bucket=self._bucket, Key=self._client.key(IGNORE_FILE))
            text = answer["Body"].read(IGNORE_BYTES_MAX).decode("utf-8", "replace")
        except (ClientError, BotoCoreError) as error:
            if code_of(error) in MISSING:
                return None
            raise translate(error, self._bucket) from error
        return GitIgnoreSpec.from_lines(text.splitlines())

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:
        """Whole bytes and the state of that very revision; one that is replaced meanwhile is read again."""
        target = {"Bucket": self._bucket, "Key": self._client.key(decode_path(path).decode("utf-8", "surrogateescape"))}
        for _ in range(READ_TRIES):
            try:
                head = self._client().head_object(**target)
                if head["ContentLength"] > limit_bytes:
                    raise RejectedInput(
                        "too_large",
                        f"{path} has {head['ContentLength']:,} bytes, more than the {limit_bytes:,} that are read",
                        remedy="split it, leave it out by .laminaignore, or raise source_bytes in lamina.toml",
                    )
                answer = self._client().get_object(**target, IfMatch=head["ETag"])
                data: bytes = answer["Body"].read()
            except (ClientError, BotoCoreError) as error:
                code = code_of(error)
                if code in MISSING:
                    raise RejectedInput(
                        "vanished", f"{path} went away while the run was under way", remedy="run again"
                    ) from error
                if code in EXISTS:
                    continue  # replaced between the two requests
                raise translate(error, self._bucket) from error
            return data, _stat(path, len(data), answer["LastModified"], answer["ETag"])
        raise RejectedInput("changing", f"{path} is being written all the time", remedy="run again when it has settled")


def _is_file(name: str, found: dict[str, Any]) -> bool:
    parts = name.split("/")
    if any(part in ("", ".", "..") or part in NEVER for part in parts):
        return False
    return bool(name) and not (name.endswith("/") and not found["Size"])


def _stat(path: SourcePath, size: int, modified: datetime, etag: str) -> SourceStat:
    """S3 tells seconds; the ETag, folded into the rest of the second, tells two revisions of one second apart."""
    seconds = int((modified - _EPOCH).total_seconds()) * SECOND_NS
    revision = int.from_bytes(hashlib.sha256(etag.encode()).digest()[:6]) % SECOND_NS
    return SourceStat(path, size, seconds, seconds + revision)
