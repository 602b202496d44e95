"""Buckets of Google Cloud Storage."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import google.auth
from apache_beam.internal.gcp import auth
from apache_beam.io.gcp.gcsio import GcsIO, create_storage_client
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core import exceptions as api
from google.api_core.retry import Retry
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import Request
from google.cloud import storage
from google.cloud.storage.exceptions import InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.exceptions import RequestException

from transforms.storage.store import Found, Store, Upload

# A name that no server answers to is a mistake rather than a fault that passes.
_FIRST_ANSWER_SECONDS = 20
_PART_BYTES = 16 * 2**20
_LOG_IN = (
    "Run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS to the "
    "file of a service account"
)


class _ImpatientRequest(Request):  # type: ignore[misc, unused-ignore]
    """Asks whether this machine is one of Google's, and does not wait for an answer for long."""

    def __call__(self, *args: Any, timeout: float = 1, **given: Any) -> Any:
        return super().__call__(*args, timeout=min(timeout, 1), **given)


def _make_client(options: PipelineOptions) -> tuple[storage.Client, bool]:
    """A client, and whether it has credentials."""
    # It would ask for the bucket's region, from a thread of its own; workers are forked before
    # there is any.
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


def _found(blob: storage.Blob) -> Found:
    return Found(blob.name, int(blob.size), blob.updated.timestamp())


class _GoogleUpload(Upload):
    def __init__(self, store: "GoogleCloudStore", name: str) -> None:
        self._store, self._name = store, name
        blob = store.blob(name)
        self._writer = blob.open(
            "wb", chunk_size=_PART_BYTES, ignore_flush=True, retry=DEFAULT_RETRY
        )

    def add(self, part: bytes) -> None:
        with self._store.explained(self._name):
            self._writer.write(part)

    def finish(self) -> None:
        with self._store.explained(self._name):
            self._writer.close()

    def abort(self) -> None:
        self._writer.terminate()


class GoogleCloudStore(Store):
    """A bucket of Google Cloud Storage.

    Args:
        bucket: its name.
        options: Beam's, for its credentials and headers.
    """

    scheme = "gs"

    def __init__(self, bucket: str, options: PipelineOptions) -> None:
        super().__init__(bucket)
        with self.explained(""):
            self._client, self._has_credentials = _make_client(options)
        self.answered = False

    @property
    def _retry(self) -> Retry:
        return DEFAULT_RETRY if self.answered else DEFAULT_RETRY.with_timeout(_FIRST_ANSWER_SECONDS)

    def blob(self, name: str) -> storage.Blob:
        """The client's object of this name."""
        return self._client.bucket(self.bucket).blob(name)

    def find(self, name: str) -> Found:
        """See `Store`."""
        with self.explained(name):
            blob = self._client.bucket(self.bucket).get_blob(name, retry=self._retry)
        if blob is None:
            raise self.no_object(name)
        return _found(blob)

    def read(self, name: str, start: int, end: int) -> bytes:
        """See `Store`."""
        with self.explained(name):
            # The store knows no checksum of a part.
            content: bytes = self.blob(name).download_as_bytes(
                start=start, end=end - 1, raw_download=True, checksum=None, retry=self._retry
            )
        return content

    def list(self, prefix: str) -> Iterator[Found]:
        """See `Store`."""
        with self.explained(prefix):
            try:
                for blob in self._client.list_blobs(
                    self.bucket,
                    prefix=prefix,
                    fields="items(name,size,updated),nextPageToken",
                    retry=self._retry,
                ):
                    yield _found(blob)
            except api.NotFound:
                raise self.no_bucket() from None

    def put(self, name: str, content: bytes, new: bool = False) -> None:
        """See `Store`."""
        with self.explained(name):
            try:
                self.blob(name).upload_from_string(
                    content,
                    content_type="application/octet-stream",
                    if_generation_match=0 if new else None,
                    retry=self._retry,
                )
            except api.NotFound:
                raise self.no_bucket() from None
            except api.PreconditionFailed:
                raise self.taken(name) from None

    def begin_upload(self, name: str) -> Upload:
        """See `Store`."""
        return _GoogleUpload(self, name)

    def copy(self, source: Store, source_name: str, name: str, size: int) -> None:  # noqa: ARG002  of S3
        """See `Store`."""
        assert isinstance(source, GoogleCloudStore)  # noqa: S101  for the type checker
        target, token = self.blob(name), None
        with self.explained(name):
            try:
                # What lies in another place is copied in several steps; else this is one.
                while True:
                    token, _, _ = target.rewrite(
                        source.blob(source_name), token=token, retry=self._retry
                    )
                    if token is None:
                        break
            except api.NotFound:
                raise source.no_object(source_name) from None

    def delete(self, names: Sequence[str]) -> None:
        """See `Store`."""
        with self.explained(names[0] if names else ""):
            paths = [self.path(name) for name in names]
            results = GcsIO(storage_client=self._client).delete_batch(paths)
        failed = [(path, status) for path, status in results if status]
        if failed:
            path, status = failed[0]
            message = f"{path} and {len(failed) - 1:,} others cannot be deleted (status {status})"
            raise PermissionError(message) if status in {401, 403} else OSError(message)

    def explain(self, error: Exception, name: str) -> Exception | None:
        """See `Store`."""
        code = getattr(error, "code", None)
        if isinstance(error, InvalidResponse):
            code = error.response.status_code
        if isinstance(error, GoogleAuthError):
            return self.denied(name, str(error), True, _LOG_IN)
        if code in {401, 403}:
            return self.denied(name, str(error), self._has_credentials, _LOG_IN)
        if code == 404:
            no_bucket = "bucket does not exist" in str(error)
            return self.no_bucket() if no_bucket else self.no_object(name)
        if isinstance(error, (api.GoogleAPIError, InvalidResponse, RequestException)):
            return self.out_of_reach(error)
        return None
