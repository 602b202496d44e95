"""WikiText from the Hugging Face hub as a plain text file, as seed 000 loads it."""

import fnmatch
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pyarrow.parquet as pq

from corpusmill.errors import UserError

# Names as users write them, and the configurations of the data set that the article loads.
WIKITEXT = {"wikitext-2": "wikitext-2-raw-v1", "wikitext-103": "wikitext-103-raw-v1"}
SPLITS = ("train", "validation", "test")

REPOSITORY = "Salesforce/wikitext"
# The hub's client waits without limit for its first answer unless told otherwise.
TIMEOUT_SECONDS = 5.0
ROWS_AT_A_TIME = 8192


def fetch_wikitext(name: str, destination: str | Path, split: str = "train") -> Path:
    """Download a split of WikiText and write its rows as lines of one text file.

    The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE); where the hub is not reached, its cache is used.
    Memory is bounded by a row group of the Parquet files.

    Args:
        name: "wikitext-2" or "wikitext-103".
        destination: folder for the text, made where it is missing.
        split: "train", "validation" or "test".

    Returns:
        The path of `wiki.<split>.tokens`, in which each row ends with one newline; it replaces a
        file of that name once it is complete.

    Raises:
        UserError: for a name or split that does not exist, and where the data set can be had
            neither from the hub nor from its cache.
    """
    if name not in WIKITEXT:
        cause = "no data set of that name is read from the Hugging Face hub"
        raise UserError(name, cause, f"Use {' or '.join(WIKITEXT)}, or the path of a file")
    if split not in SPLITS:
        raise UserError(f"{name}, split {split!r}", "no such split", f"Use {', '.join(SPLITS)}")
    files = _parquet_files(name, split)
    path = Path(destination) / f"wiki.{split}.tokens"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as text:
        for file in files:
            text.writelines(_lines(file))
    return partial.replace(path)


def _lines(file: Path) -> Iterator[str]:
    """The rows of a Parquet file's column `text`, each ending with one newline."""
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=ROWS_AT_A_TIME, columns=["text"]):
            for row in batch.column(0).to_pylist():
                yield f"{(row or '').rstrip(chr(10))}\n"


def _parquet_files(name: str, split: str) -> list[Path]:
    """The split's Parquet files in the hub's cache, in order, downloaded where need be."""
    pattern = f"{WIKITEXT[name]}/{split}-[0-9]*-of-[0-9]*.parquet"
    # The client passes on what its transport raises (requests, httpx or Xet, by its version), and
    # an answer that is no JSON (a captive portal's page): all have the same cure.
    try:
        files = _download(pattern)
    except Exception as error:
        try:
            files = _cached(pattern)
        except Exception:  # the first error tells the cause
            raise _unavailable(name, split, f"{type(error).__name__}: {error}") from error
    # "train-00000-of-00002.parquet" says how many there are.
    if not files or len(files) != int(files[-1].stem.rpartition("-")[2]):
        found = ", ".join(file.name for file in files) or "none"
        raise _unavailable(name, split, f"files matching {pattern} are incomplete, found: {found}")
    return files


def _download(pattern: str) -> list[Path]:
    api = huggingface_hub.HfApi()
    siblings = api.dataset_info(REPOSITORY, timeout=TIMEOUT_SECONDS).siblings or []
    names = fnmatch.filter((sibling.rfilename for sibling in siblings), pattern)
    return [
        Path(
            huggingface_hub.hf_hub_download(
                REPOSITORY, name, repo_type="dataset", etag_timeout=TIMEOUT_SECONDS
            )
        )
        for name in sorted(names)
    ]


def _cached(pattern: str) -> list[Path]:
    folder = huggingface_hub.snapshot_download(
        REPOSITORY, repo_type="dataset", allow_patterns=pattern, local_files_only=True
    )
    return sorted(Path(folder).glob(pattern))


def _unavailable(name: str, split: str, cause: str) -> UserError:
    """The error that says what could not be had, why, and what to do instead."""
    first_line = next(iter(cause.strip().splitlines()), "").rstrip(".")
    return UserError(
        f"{name} (split {split!r} of the data set {REPOSITORY} on the Hugging Face hub)",
        f"it cannot be downloaded ({first_line})",
        "Download it on a machine with access to the hub and pass the path of its text file",
    )
