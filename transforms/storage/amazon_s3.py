"""Buckets of Amazon S3 and of stores that speak its protocol."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import boto3
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError

from transforms.storage.store import Fault, ListedFile, Store, Upload

_DELETES_PER_REQUEST = 1000
# A larger object is copied in parts; the store copies up to 5 GB at once.
_ONE_COPY_BYTES, _COPY_PART_BYTES = 2**30, 256 * 2**20
_ATTEMPTS = 7
_FAULTS: dict[str, Fault] = {
    **dict.fromkeys(("NoSuchBucket", "InvalidBucketName"), "no bucket"),
    **dict.fromkeys(("404", "NoSuchKey", "NotFound"), "no object"),
    **dict.fromkeys(("PreconditionFailed", "ConditionalRequestConflict"), "exists"),
    **dict.fromkeys(
        (
            "401", "403", "AccessDenied", "AllAccessDisabled", "ExpiredToken", "Forbidden",
            "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired",
        ),
        "refused",
    ),
}  # fmt: skip

_clients: dict[tuple[object, ...], Any] = {}


def _make_client(options: PipelineOptions) -> tuple[Any, bool]:
    """Return a client, and whether it has credentials.

    A client takes a quarter of a second of the processor. Threads and buckets may share it; a
    forked process must not share its parent's connections.
    """
    s3 = options.view_as(S3Options)
    session = boto3.session.Session(
        aws_access_key_id=s3.s3_access_key_id,
        aws_secret_access_key=s3.s3_secret_access_key,
        aws_session_token=s3.s3_session_token,
        region_name=s3.s3_region_name,
    )
    credentials = session.get_credentials()
    settings = {
        "api_version": s3.s3_api_version,
        "use_ssl": not s3.s3_disable_ssl,
        "verify": s3.s3_verify,
        "endpoint_url": s3.s3_endpoint_url,
    }
    user = credentials and credentials.access_key
    key = (os.getpid(), user, session.region_name, *settings.values())
    if key not in _clients:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            # Without credentials a public bucket can still be read.
            signature_version=None if credentials else UNSIGNED,
        )
        _clients[key] = session.client("s3", config=config, **settings)
    return _clients[key], credentials is not None


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


class _S3Upload:
    def __init__(self, client: Any, bucket: str, name: str) -> None:
        self._client, self._target = client, {"Bucket": bucket, "Key": name}
        upload = client.create_multipart_upload(**self._target)
        self._target["UploadId"] = upload["UploadId"]
        self._parts: list[dict[str, Any]] = []

    def write(self, part: bytes) -> None:
        number = len(self._parts) + 1
        sent = self._client.upload_part(**self._target, PartNumber=number, Body=part)
        self._parts.append({"ETag": sent["ETag"], "PartNumber": number})

    def close(self) -> None:
        parts = {"Parts": self._parts}
        self._client.complete_multipart_upload(**self._target, MultipartUpload=parts)

    def terminate(self) -> None:
        self._client.abort_multipart_upload(**self._target)


class AmazonS3Store(Store):
    """A bucket of Amazon S3.

    Args:
        bucket: name of the bucket.
        options: options of Beam; those that begin with s3_ are used.

    Attributes:
        client: the client of boto3; threads may share it.
    """

    scheme = "s3"
    log_in = (
        "Run 'aws configure' or 'aws sso login', or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )

    def __init__(self, bucket: str, options: PipelineOptions) -> None:
        super().__init__(bucket)
        with self.explained(""):
            self.client, self.has_credentials = _make_client(options)

    def find(self, name: str) -> ListedFile:
        """Find an object by its name."""
        with self.explained(name):
            head = self.client.head_object(Bucket=self.bucket, Key=name)
        return ListedFile(
            self.path(name), int(head["ContentLength"]), head["LastModified"].timestamp()
        )

    def read(self, name: str, start: int, end: int) -> bytes:
        """Read a part of an object; an answer that breaks off is requested again."""
        with self.explained(name):
            for attempt in range(_ATTEMPTS):
                # The client retries only until an answer begins.
                try:
                    answer = self.client.get_object(
                        Bucket=self.bucket, Key=name, Range=f"bytes={start}-{end - 1}"
                    )
                    content: bytes = answer["Body"].read()
                    return content
                except HTTPClientError:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    time.sleep(min(20, 0.2 * 2**attempt))
        raise AssertionError("not reached")

    def list(self, prefix: str) -> Iterator[ListedFile]:
        """List the objects whose names begin with a prefix."""
        for entry in self._list_pages("list_objects_v2", "Contents", prefix):
            modified = entry["LastModified"].timestamp()
            yield ListedFile(self.path(entry["Key"]), int(entry["Size"]), modified)

    def _list_pages(self, request: str, entries: str, prefix: str) -> Iterator[dict[str, Any]]:
        pages = self.client.get_paginator(request)
        with self.explained(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                yield from page.get(entries, ())

    def put(self, name: str, content: bytes, new: bool = False) -> None:
        """Write a small object; a few stores with S3's protocol cannot keep a name for one."""
        condition = {"IfNoneMatch": "*"} if new else {}
        with self.explained(name):
            try:
                self.client.put_object(Bucket=self.bucket, Key=name, Body=content, **condition)
            except ClientError as error:
                if not (new and _code(error) == "NotImplemented"):
                    raise
                self.put(name, content)

    def begin_upload(self, name: str) -> Upload:
        """Begin to write a large object."""
        return _S3Upload(self.client, self.bucket, name)

    def copy(self, source: Store, source_name: str, name: str, size: int) -> None:
        """Copy an object, a large one in parts."""
        places = {
            "CopySource": {"Bucket": source.bucket, "Key": source_name},
            "Bucket": self.bucket,
            "Key": name,
        }
        with source.explained(source_name):
            if size <= _ONE_COPY_BYTES:
                self.client.copy_object(**places)
            else:
                parts = TransferConfig(
                    multipart_threshold=_ONE_COPY_BYTES, multipart_chunksize=_COPY_PART_BYTES
                )
                self.client.copy(**places, Config=parts)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, many with one request."""
        for begin in range(0, len(names), _DELETES_PER_REQUEST):
            keys = [{"Key": name} for name in names[begin : begin + _DELETES_PER_REQUEST]]
            with self.explained(keys[0]["Key"]):
                answer = self.client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": keys, "Quiet": True}
                )
            if failed := answer.get("Errors"):
                message = f"{self.path(failed[0]['Key'])} and {len(failed) - 1:,} others"
                code = failed[0].get("Code", "no code")
                kind = PermissionError if _FAULTS.get(code) == "refused" else OSError
                raise kind(f"{message} cannot be deleted ({code})")

    def abort_uploads(self, prefix: str) -> None:
        """Remove the parts that dead writers left; S3 keeps them for ever."""
        for upload in self._list_pages("list_multipart_uploads", "Uploads", prefix):
            with self.explained(upload["Key"]):
                self.client.abort_multipart_upload(
                    Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )

    def classify(self, error: Exception) -> Fault | None:
        """Say what an error of boto3 means."""
        if isinstance(error, NoCredentialsError):
            return "refused"
        if isinstance(error, ClientError):
            return _FAULTS.get(_code(error), "out of reach")
        return "out of reach" if isinstance(error, BotoCoreError) else None
