"""Files of the Hugging Face hub: downloaded within a time limit, or else taken from its cache.

The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

from corpusmill.errors import first_line

# Unless it is given a limit, the hub's client waits for its first answer forever.
TIMEOUT_SECONDS = 5.0
# An error's causes form a chain, which may be a ring.
_MOST_CAUSES = 20


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
    place: dict[str, Any] = {"repo_type": kind, "revision": revision}
    try:
        api = HfApi()
        ask = api.dataset_info if kind == "dataset" else api.model_info
        siblings = ask(repository, revision=revision, timeout=TIMEOUT_SECONDS).siblings or ()
        names = [sibling.rfilename for sibling in siblings]
        names = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
        return [
            Path(hf_hub_download(repository, name, **place, etag_timeout=TIMEOUT_SECONDS))
            for name in choose(names)
        ]
    except Exception:
        cached: dict[str, Any] = {"allow_patterns": list(patterns), "local_files_only": True}
        with suppress(Exception):  # the first error tells the cause
            folder = Path(snapshot_download(repository, **place, **cached))
            return sorted(path for pattern in patterns for path in folder.glob(pattern))
        raise


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
