"""Requests to S3 that `pyarrow.fs` cannot make, through boto3: conditional puts, and uploads that never ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from kafkalog.errors import StorageError, UsageError

# Two conditional puts of one key at the same moment: the store asks for a retry.
CONFLICT: Final = "ConditionalRequestConflict"
TRIES: Final = 8
REFUSED: Final = ("PreconditionFailed", "412")
MISSING: Final = ("NoSuchKey", "404", "NotFound")
WITHOUT_CONDITIONS: Final = "NotImplemented"


@dataclass(frozen=True)
class S3Settings:
    """What a URI says of its store; None where the environment or the profile says it."""

    bucket: str
    access_key: str | None
    secret_key: str | None
    endpoint: str | None
    region: str | None

    def __repr__(self) -> str:
        return f"S3Settings({self.bucket!r})"


def s3_settings(uri: str, region: str | None = None) -> S3Settings:
    """The settings in a URI such as `s3://key:secret@bucket/folder?region=…&endpoint_override=…&scheme=…`."""
    parts = urlsplit(uri, allow_fragments=False)
    login, _, bucket = parts.netloc.rpartition("@")
    access_key, _, secret_key = login.partition(":")
    query = parse_qs(parts.query)
    return S3Settings(
        unquote(bucket),
        unquote(access_key) or None,
        unquote(secret_key) or None,
        _endpoint(query),
        region or query.get("region", [None])[0],
    )


class S3Requests:
    """Requests to the bucket of an `s3://` URI, with the credentials, endpoint and region that `pyarrow.fs` takes from it.

    Keys are `bucket/key`, as `pyarrow.fs` spells them.
    """

    is_atomic = True  # a put compares and writes in one step

    def __init__(self, uri: str, region: str) -> None:
        settings = s3_settings(uri, region)
        self.bucket = settings.bucket
        self._client = _client(settings)

    def __repr__(self) -> str:
        return f"S3Requests({self.bucket!r})"

    def put(self, key: str, content: bytes, tag: str | None) -> str | None:
        """Write an object that does not exist, or still has the tag given; its new tag, None if another writer was faster."""
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        for _ in range(TRIES):
            answer, code = self._ask("writing", key, self._client.put_object, Body=content, **condition)
            if code is None:
                return str(answer["ETag"])
            if code != CONFLICT:
                return None
            time.sleep(0.1)
        return None

    def get(self, key: str) -> tuple[bytes, str] | None:
        """The content and tag of an object; None if there is none."""
        answer, code = self._ask("reading", key, self._client.get_object)
        return None if code is not None else (answer["Body"].read(), str(answer["ETag"]))

    def unfinished_uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Key and identity of each upload under a prefix that was neither completed nor aborted."""
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=self._inner(prefix))
        found = self._guarded("listing uploads", prefix, lambda: [each for page in pages for each in page.get("Uploads", ())])
        for upload in found:
            key = f"{self.bucket}/{upload['Key']}"
            if key.startswith(prefix):
                yield key, upload["UploadId"]

    def abort_upload(self, key: str, identity: str) -> None:
        """Have the store drop the parts of an upload; one that has ended meanwhile is left alone."""
        self._ask("aborting an upload", key, self._client.abort_multipart_upload, "NoSuchUpload", UploadId=identity)

    def _inner(self, key: str) -> str:
        return key.removeprefix(f"{self.bucket}/")

    def _ask(self, action: str, key: str, call: Callable[..., Any], *expected: str, **arguments: Any) -> tuple[Any, str | None]:
        """The response and None, or None and the code of a refusal that the caller expects."""
        from botocore.exceptions import ClientError

        def ask() -> tuple[Any, str | None]:
            try:
                return call(Bucket=self.bucket, Key=self._inner(key), **arguments), None
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if code in (*REFUSED, *MISSING, CONFLICT, *expected):
                    return None, code
                raise

        answered: tuple[Any, str | None] = self._guarded(action, key, ask)
        return answered

    def _guarded(self, action: str, key: str, call: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call()
        except ClientError as error:
            found = error.response.get("Error", {})
            hint = ""
            if found.get("Code") == WITHOUT_CONDITIONS:
                hint = "; this store has no conditional writes, without which two runs at once could write records twice"
            message = f"s3://{key}: {action} failed: {found.get('Code')}: {found.get('Message')}{hint}"
            raise StorageError(message, file=f"s3://{key}") from error
        except BotoCoreError as error:
            raise StorageError(f"s3://{key}: {action} failed: {error}", file=f"s3://{key}") from error


def _client(settings: S3Settings) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise UsageError(
            f"writing to s3:// needs boto3 ({error}) for conditional puts, which keep two runs apart: pip install 'kafkalog[s3]'"
        ) from None
    endpoint = settings.endpoint
    config = Config(
        # Arrow reads the endpoint from the environment and from the URI, never from a profile.
        ignore_configured_endpoint_urls=endpoint is None,
        # Arrow asks for `endpoint/bucket/key` wherever an endpoint is named.
        s3={"addressing_style": "auto" if endpoint is None else "path"},
        # Stores other than Amazon's may not support the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": "standard", "max_attempts": 5},
        # These renew a lease: no request may take longer than it lasts.
        connect_timeout=5,
        read_timeout=10,
    )
    return boto3.Session().client(
        "s3",
        region_name=settings.region,
        endpoint_url=endpoint,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        config=config,
    )


def _endpoint(query: dict[str, list[str]]) -> str | None:
    override = query.get("endpoint_override", [""])[0]
    if not override:
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
    return override if "://" in override else f"{query.get('scheme', ['https'])[0]}://{override}"
