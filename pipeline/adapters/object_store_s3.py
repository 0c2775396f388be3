"""Object store in an S3 bucket: one object a key, created only where there is none.

A blob's SHA-256 travels with it and is checked at both ends; ETags are not compared with anything, since those of
multipart and encrypted objects aren't digests. Large blobs go in parts, and appear when the last step succeeds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from pipeline.adapters.s3_client import EXISTS, MISSING, RACED, S3Client, S3Settings, code_of, translate
from pipeline.errors import Conflict, Corruption, RejectedInput, Unavailable
from pipeline.object_keys import checked

PART_BYTES: Final = 16 * 1024 * 1024
"""A larger blob is sent in parts of this size."""
THREADS: Final = 4
DELETE_MAX: Final = 1000
"""Keys in one request."""
RACES_MAX: Final = 5
PROBE: Final = ".lamina-probe"
DIGEST: Final = "sha256"


class S3ObjectStore:
    """Port `ObjectStore`. Any number of processes may share the bucket."""

    def __init__(self, settings: S3Settings) -> None:
        """Reach a bucket under a prefix; nothing else may write there."""
        self._client = S3Client(settings)
        self._bucket = settings.bucket
        self._probed = False

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Store each blob; S3 has them when it returns.

        Raises:
            Conflict: a key exists with other bytes.
            RejectedInput: codes `bad_key`, `no_bucket`; `no_conditional_writes`: the server would let one writer
                overwrite another's object, so that nothing may be built on it.
        """
        for key in items:
            checked(key)
        if not items:
            return
        self._probe()
        with ThreadPoolExecutor(min(THREADS, len(items))) as pool:
            held = list(pool.map(self._holds, items, items.values()))  # conflicts show before anything is written
            new = [key for key, there in zip(items, held, strict=True) if not there]
            list(pool.map(self._put, new, [items[key] for key in new]))

    def get(self, key: str) -> bytes:
        """The blob, its digest checked.

        Raises:
            RejectedInput: codes `no_such_object`, `bad_key`.
            Corruption: the bytes aren't those that were stored.
        """
        try:
            answer = self._client().get_object(Bucket=self._bucket, Key=self._client.key(checked(key)))
            data: bytes = answer["Body"].read()
        except (ClientError, BotoCoreError) as error:
            if code_of(error) in MISSING:
                raise RejectedInput("no_such_object", f"there is no object {key}") from error
            raise translate(error, self._bucket) from error
        stored = answer.get("Metadata", {}).get(DIGEST)
        if stored is not None and stored != hashlib.sha256(data).hexdigest():
            raise Corruption(
                "object_damaged", f"object {key} of bucket {self._bucket} holds other bytes than were stored"
            )
        return data

    def delete_many(self, keys: Sequence[str]) -> None:
        """Erase; keys that don't exist are passed over."""
        for key in keys:
            checked(key)
        for at in range(0, len(keys), DELETE_MAX):
            listed = [{"Key": self._client.key(key)} for key in keys[at : at + DELETE_MAX]]
            try:
                answer = self._client().delete_objects(Bucket=self._bucket, Delete={"Objects": listed, "Quiet": True})
            except (ClientError, BotoCoreError) as error:
                raise translate(error, self._bucket) from error
            failed = [e for e in answer.get("Errors", []) if e.get("Code") not in MISSING]
            if failed:
                raise Unavailable(
                    "object_store_unavailable",
                    f"bucket {self._bucket} did not delete {len(failed)} objects ({failed[0].get('Code')})",
                    remedy="try again",
                )

    def list(self, prefix: str) -> Iterator[str]:
        """Keys that start with `prefix`, by code point, a thousand at a time."""
        own = len(self._client.settings.prefix)
        try:
            pages = self._client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._client.key(prefix)):
                for found in page.get("Contents", ()):
                    key = found["Key"][own:]
                    if not key.startswith("."):
                        yield key
        except (ClientError, BotoCoreError) as error:
            raise translate(error, self._bucket) from error

    def _put(self, key: str, data: bytes) -> None:
        for _ in range(RACES_MAX):
            try:
                self._create(key, data)
            except (ClientError, BotoCoreError) as error:
                code = code_of(error)
                if code not in EXISTS | RACED:
                    raise translate(error, self._bucket) from error
                # Perhaps our own: a request that was repeated finds what its first try has left.
                if code in EXISTS and self._holds(key, data):
                    return
            else:
                return
        raise Unavailable("object_store_unavailable", f"object {key} is being written by others all the time")

    def _create(self, key: str, data: bytes) -> None:
        digest = hashlib.sha256(data)
        target = {"Bucket": self._bucket, "Key": self._client.key(key)}
        kept = {DIGEST: digest.hexdigest()}
        if len(data) > PART_BYTES:
            self._in_parts(target, data, kept)
            return
        self._client().put_object(
            **target,
            Body=data,
            Metadata=kept,
            ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
            IfNoneMatch="*",
        )

    def _in_parts(self, target: Mapping[str, str], data: bytes, kept: Mapping[str, str]) -> None:
        client = self._client()
        upload = client.create_multipart_upload(**target, Metadata=kept)["UploadId"]
        try:
            parts: list[dict[str, Any]] = []
            for number, at in enumerate(range(0, len(data), PART_BYTES), 1):
                part = client.upload_part(**target, UploadId=upload, PartNumber=number, Body=data[at : at + PART_BYTES])
                parts.append({"PartNumber": number, "ETag": part["ETag"]})
            client.complete_multipart_upload(
                **target, UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        except BaseException:
            with suppress(ClientError, BotoCoreError):
                client.abort_multipart_upload(**target, UploadId=upload)
            raise

    def _holds(self, key: str, data: bytes) -> bool:
        """Whether the key holds these bytes; False where there is no such key."""
        try:
            held = self._client().head_object(Bucket=self._bucket, Key=self._client.key(key))
        except (ClientError, BotoCoreError) as error:
            if code_of(error) in MISSING:
                return False
            raise translate(error, self._bucket) from error
        stored = held.get("Metadata", {}).get(DIGEST)
        same = self.get(key) == data if stored is None else stored == hashlib.sha256(data).hexdigest()
        if not same:
            raise Conflict("object_exists", f"object {key} exists with other bytes")
        return True

    def _probe(self) -> None:
        """Make sure that the server holds create-only writes; S3 does, not every server that speaks its protocol."""
        if self._probed:
            return
        target = {"Bucket": self._bucket, "Key": self._client.key(PROBE), "Body": b"", "IfNoneMatch": "*"}
        for attempt in (1, 2):
            try:
                self._client().put_object(**target)
            except (ClientError, BotoCoreError) as error:
                if code_of(error) in EXISTS:
                    self._probed = True
                    return
                if code_of(error) not in RACED:
                    raise translate(error, self._bucket) from error
            else:
                if attempt == 1:
                    continue
        raise RejectedInput(
            "no_conditional_writes",
            f"the server of bucket {self._bucket} ignores If-None-Match: two workers could overwrite each other's objects",
            remedy="use a server that holds conditional writes (AWS S3 does), or one machine with local files",
        )
