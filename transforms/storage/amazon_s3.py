"""Buckets of Amazon S3 and of stores that speak its protocol."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any

import boto3
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

from corpusmill.outages import TEMPORARY_STATUSES, Patience, parse_wait
from transforms.storage.store import Fault, ListedFile, Store, Upload

# More than threads of a process use at once; the client would close and open others each time.
_CONNECTIONS = 64
_TEMPORARY = {
    "ConditionalRequestConflict", "InternalError", "OperationAborted", "RequestTimeout",
    "ServiceUnavailable", "SlowDown",
}  # fmt: skip
_ANEW = "Log in again, or set AWS_SESSION_TOKEN with the keys that belong to it"
_EXPIRED = ("the credentials have expired", _ANEW)
_ELSEWHERE = (
    "the bucket is in another region, or the endpoint is not that of its region",
    "Name its region in AWS_DEFAULT_REGION, or with --s3_region_name after --",
)
_CLOCK = ("this machine's clock differs from the store's", "Set the clock, and run again")
_WRONG_KEY = (
    "the store does not accept the credentials",
    "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in AWS_PROFILE",
)
_CODES: tuple[tuple[str, Fault], ...] = (
    ("NoSuchBucket InvalidBucketName", "no bucket"),
    ("404 NoSuchKey NotFound", "no object"),
    ("412 PreconditionFailed", "exists"),
    ("401 403 AccessDenied AllAccessDisabled Forbidden", "refused"),
    ("ExpiredToken InvalidToken TokenRefreshRequired", _EXPIRED),
    ("InvalidAccessKeyId SignatureDoesNotMatch", _WRONG_KEY),
    ("301 AuthorizationHeaderMalformed PermanentRedirect", _ELSEWHERE),
    ("IllegalLocationConstraintException", _ELSEWHERE),
    ("RequestTimeTooSkewed", _CLOCK),
)
_FAULTS = {code: fault for codes, fault in _CODES for code in codes.split()}

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
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=20,
            max_pool_connections=_CONNECTIONS,
            # Without credentials a public bucket can still be read.
            signature_version=None if credentials else UNSIGNED,
        )
        client = session.client("s3", config=config, **settings)
        client._make_api_call = Patience(_judge)(partial(_ask, client._make_api_call))
        _clients[key] = client
    return _clients[key], credentials is not None


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _ask(request: Callable[[str, Any], Any], operation: str, parameters: Any) -> Any:
    """Make a request, with all of its answer, so that whatever fails in it makes it fail."""
    # The client replaces a body by a stream, which only one attempt could read.
    answer = request(operation, {**parameters})
    if operation == "GetObject":
        answer["Body"] = BytesIO(answer["Body"].read())
    if errors := answer.get("Errors"):
        raise ClientError({"Error": errors[0]}, operation)
    return answer


def _ask_if(request: Callable[..., Any], parameters: dict[str, Any], tag: str | None) -> None:
    """Make a request that replaces an object with a tag, or makes it (`Store.put`)."""
    condition = {} if tag is None else {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
    try:
        request(**parameters, **condition)
    except ClientError as error:
        # A few stores with S3's protocol know no conditions.
        if not condition or _code(error) != "NotImplemented":
            raise
        request(**parameters)


def _judge(error: Exception) -> float | None:
    """Judge an error as `Patience` does."""
    if isinstance(error, ClientError):
        about: dict[str, Any] = error.response.get("ResponseMetadata", {})
        is_temporary = _code(error) in _TEMPORARY
        if is_temporary or about.get("HTTPStatusCode") in TEMPORARY_STATUSES:
            return parse_wait(about.get("HTTPHeaders", {}).get("retry-after"))
        return None
    of_network = (NoConnectionError, HTTPClientError, IncompleteReadError)
    return 0.0 if isinstance(error, of_network) else None


class _S3Upload:
    def __init__(self, store: "AmazonS3Store", name: str, new: bool) -> None:
        self._store, self._client, self._new = store, store.client, new
        self._target = {"Bucket": store.bucket, "Key": name}
        upload = self._client.create_multipart_upload(**self._target)
        self._target["UploadId"] = upload["UploadId"]
        self._parts: list[dict[str, Any]] = []
        self._bytes = 0

    def write(self, part: bytes) -> None:
        number = len(self._parts) + 1
        sent = self._client.upload_part(**self._target, PartNumber=number, Body=part)
        self._parts.append({"ETag": sent["ETag"], "PartNumber": number})
        self._bytes += len(part)

    def close(self) -> None:
        finished = {**self._target, "MultipartUpload": {"Parts": self._parts}}
        try:
            _ask_if(self._client.complete_multipart_upload, finished, "" if self._new else None)
        except ClientError as error:
            name = self._target["Key"]
            # Of an attempt that has completed it, only the answer may have been lost.
            if _code(error) != "NoSuchUpload" or self._store.find(name).bytes != self._bytes:
                raise
            if self._new:  # or another writer was faster, whose bytes are others
                raise FileExistsError(errno.EEXIST, "Object exists", name) from error

    def terminate(self) -> None:
        try:
            self._client.abort_multipart_upload(**self._target)
        except ClientError as error:  # it may be complete, and only the answer was lost
            if _code(error) != "NoSuchUpload":
                raise


class AmazonS3Store(Store):
    """A bucket of Amazon S3.

    Args:
        bucket: name of the bucket.
        options: options of Beam; those that begin with s3_ are used.

    Attributes:
        client: the client of boto3; threads may share it.
    """

    scheme = "s3"
    deletes_per_request = 1000
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
        """Read a part of an object."""
        with self.explained(name):
            answer = self.client.get_object(
                Bucket=self.bucket, Key=name, Range=f"bytes={start}-{end - 1}"
            )
        content: bytes = answer["Body"].read()
        return content

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

    def read_tagged(self, name: str) -> tuple[bytes | None, str]:
        """Read a small object, and its tag."""
        try:
            with self.explained(name):
                answer = self.client.get_object(Bucket=self.bucket, Key=name)
        except FileNotFoundError:
            return None, ""
        return answer["Body"].read(), str(answer["ETag"])

    def put(self, name: str, content: bytes, tag: str | None = None) -> None:
        """Write a small object."""
        written = {"Bucket": self.bucket, "Key": name, "Body": content}
        with self.explained(name):
            _ask_if(self.client.put_object, written, tag)

    def begin_upload(self, name: str, new: bool = False) -> Upload:
        """Begin to write a large object."""
        return _S3Upload(self, name, new)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects with one request."""
        objects = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        with self.explained(names[0]):
            self.client.delete_objects(Bucket=self.bucket, Delete=objects)

    def abort_uploads(self, prefix: str) -> None:
        """Remove the parts that dead writers left; S3 keeps them for ever."""
        for upload in self._list_pages("list_multipart_uploads", "Uploads", prefix):
            with self.explained(upload["Key"]):
                self.client.abort_multipart_upload(
                    Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )

    def classify(self, error: Exception) -> Fault | None:
        """Say what an error of boto3 means."""
        if _judge(error) is not None:
            return "out of reach"
        if isinstance(error, ClientError):
            return _FAULTS.get(_code(error), "not taken")
        if isinstance(error, PartialCredentialsError):
            return f"half of the credentials is missing ({error})", self.log_in
        if isinstance(error, NoCredentialsError):
            return "refused"
        if isinstance(error, ValueError) and "endpoint" in str(error):
            cure = "Write it with its scheme, such as --s3_endpoint_url=https://host:9000"
            return str(error), cure
        return "not taken" if isinstance(error, BotoCoreError) else None
