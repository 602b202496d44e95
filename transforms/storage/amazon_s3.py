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

from transforms.storage.store import Found, Store, Upload

_MOST_DELETED = 1000
# An object above this is copied in parts; the store takes up to 5 GB at once.
_ONE_COPY_BYTES, _COPY_PART_BYTES = 2**30, 256 * 2**20
_ATTEMPTS = 7
_DENIED = {
    "401", "403", "AccessDenied", "AllAccessDisabled", "ExpiredToken", "Forbidden",
    "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired",
}  # fmt: skip
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}
_LOG_IN = (
    "Run 'aws configure' or 'aws sso login', or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


_clients: dict[tuple[object, ...], Any] = {}


def _make_client(options: PipelineOptions) -> tuple[Any, bool]:
    """A client, and whether it has credentials.

    A client takes a quarter of a second of the processor, and threads and buckets may share it; a
    forked process must not share its parent's connections.
    """
    given = options.view_as(S3Options)
    session = boto3.session.Session(
        aws_access_key_id=given.s3_access_key_id,
        aws_secret_access_key=given.s3_secret_access_key,
        aws_session_token=given.s3_session_token,
        region_name=given.s3_region_name,
    )
    credentials = session.get_credentials()
    settings = {
        "api_version": given.s3_api_version,
        "use_ssl": not given.s3_disable_ssl,
        "verify": given.s3_verify,
        "endpoint_url": given.s3_endpoint_url,
    }
    who = credentials and credentials.access_key
    key = (os.getpid(), who, session.region_name, *settings.values())
    if key not in _clients:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            # Without credentials a public bucket can still be read.
            signature_version=None if credentials else UNSIGNED,
        )
        _clients[key] = session.client("s3", config=config, **settings)
    return _clients[key], credentials is not None


class _S3Upload(Upload):
    def __init__(self, store: "AmazonS3Store", name: str) -> None:
        self._store, self._name = store, name
        self._of = {"Bucket": store.bucket, "Key": name}
        self._parts: list[dict[str, Any]] = []
        with store.explained(name):
            begun = store.client.create_multipart_upload(**self._of)
        self._of["UploadId"] = begun["UploadId"]

    def add(self, part: bytes) -> None:
        number = len(self._parts) + 1
        with self._store.explained(self._name):
            sent = self._store.client.upload_part(**self._of, PartNumber=number, Body=part)
        self._parts.append({"ETag": sent["ETag"], "PartNumber": number})

    def finish(self) -> None:
        with self._store.explained(self._name):
            self._store.client.complete_multipart_upload(
                **self._of, MultipartUpload={"Parts": self._parts}
            )

    def abort(self) -> None:
        with self._store.explained(self._name):
            self._store.client.abort_multipart_upload(**self._of)


class AmazonS3Store(Store):
    """A bucket of Amazon S3.

    Args:
        bucket: its name.
        options: Beam's; those that begin with s3_ count.

    Attributes:
        client: boto3's; threads may share it.
    """

    scheme = "s3"

    def __init__(self, bucket: str, options: PipelineOptions) -> None:
        super().__init__(bucket)
        with self.explained(""):
            self.client, self._has_credentials = _make_client(options)

    def find(self, name: str) -> Found:
        """See `Store`."""
        with self.explained(name):
            got = self.client.head_object(Bucket=self.bucket, Key=name)
        return Found(name, int(got["ContentLength"]), got["LastModified"].timestamp())

    def read(self, name: str, start: int, end: int) -> bytes:
        """See `Store`."""
        with self.explained(name):
            for attempt in range(_ATTEMPTS):
                # The client tries again until an answer begins, but not where one breaks off.
                try:
                    got = self.client.get_object(
                        Bucket=self.bucket, Key=name, Range=f"bytes={start}-{end - 1}"
                    )
                    content: bytes = got["Body"].read()
                    return content
                except HTTPClientError:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    time.sleep(min(20, 0.2 * 2**attempt))
        raise AssertionError("not reached")

    def list(self, prefix: str) -> Iterator[Found]:
        """See `Store`."""
        pages = self.client.get_paginator("list_objects_v2")
        with self.explained(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for of in page.get("Contents", ()):
                    yield Found(of["Key"], int(of["Size"]), of["LastModified"].timestamp())

    def put(self, name: str, content: bytes, new: bool = False) -> None:
        """See `Store`."""
        condition = {"IfNoneMatch": "*"} if new else {}
        with self.explained(name):
            try:
                self.client.put_object(Bucket=self.bucket, Key=name, Body=content, **condition)
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code")
                if code in _TAKEN:
                    raise self.taken(name) from None
                if not (new and code == "NotImplemented"):  # by some that speak S3's protocol
                    raise
                self.put(name, content)

    def begin_upload(self, name: str) -> Upload:
        """See `Store`."""
        return _S3Upload(self, name)

    def copy(self, source: Store, source_name: str, name: str, size: int) -> None:
        """See `Store`."""
        given = {"CopySource": {"Bucket": source.bucket, "Key": source_name}}
        target = {"Bucket": self.bucket, "Key": name}
        with source.explained(source_name):
            if size <= _ONE_COPY_BYTES:
                self.client.copy_object(**given, **target)
            else:
                parts = TransferConfig(
                    multipart_threshold=_ONE_COPY_BYTES, multipart_chunksize=_COPY_PART_BYTES
                )
                self.client.copy(**given, **target, Config=parts)

    def delete(self, names: Sequence[str]) -> None:
        """See `Store`."""
        for begin in range(0, len(names), _MOST_DELETED):
            given = [{"Key": name} for name in names[begin : begin + _MOST_DELETED]]
            with self.explained(given[0]["Key"]):
                done = self.client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": given, "Quiet": True}
                )
            if failed := done.get("Errors"):
                message = f"{self.path(failed[0]['Key'])} and {len(failed) - 1:,} others"
                code = failed[0].get("Code", "no code")
                kind = PermissionError if code in _DENIED else OSError
                raise kind(f"{message} cannot be deleted ({code})")

    def abort_uploads(self, prefix: str) -> None:
        """See `Store`."""
        pages = self.client.get_paginator("list_multipart_uploads")
        with self.explained(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for of in page.get("Uploads", ()):
                    self.client.abort_multipart_upload(
                        Bucket=self.bucket, Key=of["Key"], UploadId=of["UploadId"]
                    )

    def explain(self, error: Exception, name: str) -> Exception | None:
        """See `Store`."""
        if isinstance(error, NoCredentialsError):
            return self.denied(name, str(error), False, _LOG_IN)
        if isinstance(error, BotoCoreError):
            return self.out_of_reach(error)
        if not isinstance(error, ClientError):
            return None
        code = error.response.get("Error", {}).get("Code", "")
        if code in _DENIED:
            return self.denied(name, str(error), self._has_credentials, _LOG_IN)
        if code in {"404", "NoSuchKey", "NotFound"}:
            return self.no_object(name)
        no_bucket = code in {"NoSuchBucket", "InvalidBucketName"}
        return self.no_bucket() if no_bucket else self.out_of_reach(error)
