"""The Hugging Face hub: names of its data sets, its errors, and files of it.

Files are downloaded within a time limit, or else taken from its cache.

The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import huggingface_hub  # it imports each of its own modules when one is needed

from corpusmill.errors import OutageError, UserError, first_line
from corpusmill.outages import TEMPORARY_STATUSES, Patience, parse_wait

# Unless it is given a limit, the hub's client waits for its first answer forever.
TIMEOUT_SECONDS = 5.0
# An error's causes form a chain, which may be a ring.
_MOST_CAUSES = 20

SCHEME = "hf://"
_NAME = re.compile(
    r"hf://datasets/(?P<data_set>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<path>.*))?"
)
LOGIN = "with a token in HF_TOKEN or after `hf auth login`"


# The clients of HTTP that versions of the hub's client use.
_TRANSPORTS = {"httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"}


def _judge(error: Exception) -> float | None:
    """Judge an error of the hub's client as `Patience` does."""
    response = getattr(error, "response", None)
    if response is not None:
        header = response.headers.get("Retry-After")
        return parse_wait(header) if response.status_code in _TEMPORARY else None
    kind = type(error)
    if kind.__name__ == "OfflineModeIsEnabled":
        return None
    is_of_network = isinstance(error, ConnectionError | TimeoutError) or (
        kind.__module__.partition(".")[0] in _TRANSPORTS and "URL" not in kind.__name__
    )
    return 0.0 if is_of_network else None


# A conflict on the hub is somebody else's commit, and not temporary.
_TEMPORARY = TEMPORARY_STATUSES - {409}


@cache
def patience_of(endpoint: str) -> Patience:  # noqa: ARG001  the cache goes by it
    """Return how long a hub is waited for; the same for all who ask this hub."""
    return Patience(_judge)


class DataSetName(NamedTuple):
    """What a name such as hf://datasets/organization/name@revision/path refers to.

    Attributes:
        data_set: "organization/name".
        revision: a branch, a tag or a commit; None for the main branch.
        path: of a file or folder, or a glob; empty for the whole data set.
    """

    data_set: str
    revision: str | None
    path: str

    @classmethod
    def parse(cls, url: str) -> "DataSetName | None":
        """Return what a URL refers to; None if it names no data set of the hub."""
        match = _NAME.fullmatch(url.rstrip("/"))
        if not match:
            return None
        revision = unquote(match["revision"]) if match["revision"] else None
        return cls(match["data_set"], revision, match["path"] or "")

    def ask(self, **options: Any) -> "huggingface_hub.DatasetInfo":
        """Ask the hub for the present commit and the card.

        Args:
            options: of the hub's client ("endpoint", "token").
        """
        api = huggingface_hub.HfApi(**options)
        ask = patience_of(api.endpoint)(api.dataset_info)
        return ask(self.data_set, revision=self.revision, timeout=TIMEOUT_SECONDS)

    @property
    def url(self) -> str:
        """The URL that refers to it."""
        revision = f"@{quote(self.revision, safe='')}" if self.revision else ""
        path = f"/{self.path}" if self.path else ""
        return f"{SCHEME}datasets/{self.data_set}{revision}{path}"


def fetch_files(
    repository: str,
    patterns: Sequence[str],
    kind: Literal["dataset", "model"],
    revision: str | None = None,
    choose: Callable[[list[str]], list[str]] = sorted,
) -> list[Path]:
    """Download files of a repository to the hub's cache; use the cache if the hub is not reached.

    Args:
        repository: its name on the hub.
        patterns: names of files, or globs.
        kind: of the repository.
        revision: a branch, a tag or a commit; the main branch by default.
        choose: takes the names on the hub that match and returns those to download.

    Returns:
        The files' paths in the cache, at one commit.

    Raises:
        Exception: neither the hub nor its cache has the files. This is the error of the hub's
            client, or of its transport (requests, httpx or Xet, depending on its version).
    """
    api = huggingface_hub.HfApi()
    ask = api.dataset_info if kind == "dataset" else api.model_info
    place: dict[str, Any] = {"repo_type": kind, "revision": revision}
    online: dict[str, Any] = {**place, "etag_timeout": TIMEOUT_SECONDS}
    cached: dict[str, Any] = {**place, "allow_patterns": [*patterns], "local_files_only": True}

    def fetch() -> list[Path]:
        try:
            siblings = ask(repository, revision=revision, timeout=TIMEOUT_SECONDS).siblings or ()
            names = [sibling.rfilename for sibling in siblings]
            names = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
            download = huggingface_hub.hf_hub_download
            return [Path(download(repository, name, **online)) for name in choose(names)]
        except Exception:
            with suppress(Exception):  # the first error tells the cause
                folder = Path(huggingface_hub.snapshot_download(repository, **cached))
                return sorted(path for pattern in patterns for path in folder.glob(pattern))
            raise

    return patience_of(api.endpoint)(fetch)()


def pin_url(url: str, options: Mapping[str, Any]) -> str:
    """Return the URL of a data set of the hub at the commit that its revision now refers to.

    Args:
        url: any; other URLs are returned as they are.
        options: of the hub's filesystem ("endpoint", "token").

    Raises:
        UserError: the data set or its revision does not exist, or the hub cannot be reached.
    """
    name = DataSetName.parse(url)
    if name is None and url.startswith(f"{SCHEME}datasets/"):
        cure = "Write hf://datasets/organization/name, then @revision where you need it"
        raise UserError(url, "it names no data set of the hub", cure)
    if name is None or re.fullmatch("[0-9a-f]{40}", name.revision or ""):
        return url
    try:
        own = {key: options[key] for key in ("endpoint", "token") if key in options}
        info = name.ask(**own)
    except Exception as error:  # its transport depends on its version, with errors of its own
        raise error_class(error)(url, *explain_error(error)) from error
    return name._replace(revision=info.sha).url


def error_class(error: Exception) -> type[UserError]:
    """Return the class of the message about an error: that of an outage, or of a mistake."""
    return UserError if _judge(error) is None else OutageError


def explain_error(error: Exception) -> tuple[str, str]:
    """Return the cause of an error of the hub's client or its transport, and the cure."""
    # Its module of errors imports its transport.
    from huggingface_hub import errors  # noqa: PLC0415

    match error:
        case errors.HFValidationError():
            return f"it is not the name of a data set ({first_line(error)})", "Check the name"
        case errors.GatedRepoError():
            return "it is gated", f"Accept its terms on the hub, and run again {LOGIN}"
        case errors.RepositoryNotFoundError():
            cause = "the hub has no such data set, or you may not see it"
            return cause, f"Check the name; a private one is read {LOGIN}"
        case errors.RevisionNotFoundError():
            return "the data set has no such revision", "Give a branch, tag or commit"
        case errors.OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set", "Unset it, or give local files"
    cause = f"the hub cannot be read ({describe_error(error)})"
    return cause, "Check the network, or download the files elsewhere and give their folder"


def describe_error(error: Exception) -> str:
    """Say what an error of the hub's client, or of another client of HTTP, is about.

    Returns:
        The host that cannot be reached and why, or the type of the error and the first line of its
        message.
    """
    request = None
    with suppress(AttributeError, RuntimeError):  # it has none, or lost it
        request = error.request  # type: ignore[attr-defined]
    host = urlsplit(str(getattr(request, "url", ""))).hostname
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < _MOST_CAUSES:
        chain.append(cause)
    for one in chain:
        if isinstance(one, OSError) and isinstance(one.strerror, str):
            return f"{host or 'the server'} cannot be reached: {one.strerror}"
    return f"{type(error).__name__}: {first_line(error)}"
