"""Files of the Hugging Face hub: downloaded within a time limit, or else taken from its cache.

The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE).
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

# Unless it is given a limit, the hub's client waits for its first answer forever.
TIMEOUT_SECONDS = 5.0


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
    except Exception as error:
        cached: dict[str, Any] = {"allow_patterns": list(patterns), "local_files_only": True}
        try:
            folder = snapshot_download(repository, **place, **cached)
        except Exception:  # the first error tells the cause
            raise error from None
    return sorted(path for pattern in patterns for path in Path(folder).glob(pattern))


def describe_error(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """The first line of an error's message, without a full stop."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(".")
