"""Buckets of Google Cloud Storage."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import google.auth
from apache_beam.internal.gcp import auth
from apache_beam.io.gcp.gcsio import create_storage_client
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core import exceptions as api
from google.auth.exceptions import (
    DefaultCredentialsError,
    GoogleAuthError,
    RefreshError,
    TransportError,
)
from google.auth.transport.requests import Request
from google.cloud import storage
from google.cloud.storage.exceptions import InvalidResponse
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError, RequestException, Timeout
from requests.exceptions import ConnectionError as NoConnectionError
from urllib3.exceptions import HTTPError as BrokenTransferError

from corpusmill.outages import TEMPORARY_STATUSES, Patience, parse_wait
from transforms.storage.store import Fault, ListedFile, Store, Upload

_PART_BYTES = 16 * 2**20
# More than threads of a process use at once; the client would close and open others each time.
_CONNECTIONS = 64
_OF_NETWORK = (
    NoConnectionError, ChunkedEncodingError, Timeout, ConnectionError, TransportError,
    BrokenTransferError,
)  # fmt: skip


class _ImpatientRequest(Request):  # type: ignore[misc, unused-ignore]
    """Asks whether this machine is one of Google's, and waits a second at most for the answer."""

    def __call__(self, *args: Any, timeout: float = 1, **keywords: Any) -> Any:
        return super().__call__(*args, timeout=min(timeout, 1), **keywords)


def _make_client(options: PipelineOptions) -> tuple[storage.Client, bool]:
    """Return a client, and whether it has credentials."""
    # The client would look up the bucket's region in a thread of its own, but workers are forked
    # before the first thread is started.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return storage.Client.create_anonymous_client(), True
    if not auth._Credentials._credentials_init:
        try:
            google.auth.default(request=_ImpatientRequest())
        except DefaultCredentialsError:
            auth._Credentials._credentials_init = True
    client = create_storage_client(options)
    return client, auth.get_service_credentials(options) is not None


def _status(error: Exception) -> int | None:
    """Return the status of the answer that an error is about."""
    if isinstance(error, InvalidResponse):
        return int(error.response.status_code)
    return getattr(error, "code", None)


def _judge(error: Exception) -> float | None:
    """Judge an error as `Patience` does."""
    if isinstance(error, _OF_NETWORK):
        return 0.0
    if _status(error) not in TEMPORARY_STATUSES:
        return None
    headers = getattr(getattr(error, "response", None), "headers", {})
    return parse_wait(headers.get("Retry-After"))


class GoogleCloudStore(Store):
    """A bucket of Google Cloud Storage.

    Args:
        bucket: name of the bucket.
        options: options of Beam, for its credentials and headers.
    """

    scheme = "gs"
    deletes_per_request = 100
    log_in = (
        "Run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS to the "
        "file of a service account"
    )

    def __init__(self, bucket: str, options: PipelineOptions) -> None:
        super().__init__(bucket)
        with self.explained(""):
            client, self.has_credentials = _make_client(options)
        for scheme in ("https://", "http://"):
            client._http.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self._client, self._bucket = client, client.bucket(bucket)
        self._retry = Patience(_judge)

    def _describe(self, blob: storage.Blob) -> ListedFile:
        return ListedFile(self.path(blob.name), int(blob.size), blob.updated.timestamp())

    def find(self, name: str) -> ListedFile:
        """Find an object by its name."""
        with self.explained(name):
            blob = self._bucket.get_blob(name, retry=self._retry)
        if blob is None:
            raise self.explain("no object", name)
        return self._describe(blob)

    def read(self, name: str, start: int, end: int) -> bytes:
        """Read a part of an object."""
        with self.explained(name):
            # The store knows no checksum of a part.
            content: bytes = self._bucket.blob(name).download_as_bytes(
                start=start, end=end - 1, raw_download=True, checksum=None, retry=self._retry
            )
        return content

    def list(self, prefix: str) -> Iterator[ListedFile]:
        """List the objects whose names begin with a prefix."""
        fields = "items(name,size,updated),nextPageToken"
        with self.explained(prefix, missing="no bucket"):
            for blob in self._client.list_blobs(
                self.bucket, prefix=prefix, fields=fields, retry=self._retry
            ):
                yield self._describe(blob)

    def read_tagged(self, name: str) -> tuple[bytes | None, str]:
        """Read a small object, and its generation."""
        blob = self._bucket.blob(name)
        try:
            with self.explained(name):
                content = blob.download_as_bytes(raw_download=True, retry=self._retry)
        except FileNotFoundError:
            return None, ""
        return content, str(blob.generation)

    def put(self, name: str, content: bytes, tag: str | None = None) -> None:
        """Write a small object."""
        with self.explained(name, missing="no bucket"):
            self._bucket.blob(name).upload_from_string(
                content,
                content_type="application/octet-stream",
                if_generation_match=None if tag is None else int(tag or 0),
                retry=self._retry,
            )

    def begin_upload(self, name: str, new: bool = False) -> Upload:
        """Begin to write a large object."""
        condition = {"if_generation_match": 0} if new else {}
        writer: Upload = self._bucket.blob(name).open(
            "wb", chunk_size=_PART_BYTES, ignore_flush=True, retry=self._retry, **condition
        )
        return writer

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects with one request."""
        with self.explained(names[0]):
            self._retry(self._delete)(names)

    def _delete(self, names: Sequence[str]) -> None:
        batch = self._client.batch(raise_exception=False)
        with batch:
            for name in names:
                self._bucket.delete_blob(name)
        for answer in batch._responses:
            if answer.status_code >= 400 and answer.status_code != 404:
                raise api.from_http_response(answer)

    def classify(self, error: Exception) -> Fault | None:
        """Say what an error of Google's client means."""
        if _judge(error) is not None:
            return "out of reach"
        status = _status(error)
        if isinstance(error, RefreshError):
            return "the credentials have expired, or were withdrawn", self.log_in
        if isinstance(error, GoogleAuthError) or status in {401, 403}:
            return "refused"
        if status == 404:
            return "no bucket" if "bucket does not exist" in str(error) else "no object"
        if status == 412:
            return "exists"
        known = isinstance(error, (api.GoogleAPIError, InvalidResponse, RequestException))
        return "not taken" if known else None
