"""The input, checked before any work: a sorted list of files, and what each of them is."""

import glob
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.console import Console

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.conditions import settle_condition
from corpusmill.corpus.content import Content
from corpusmill.corpus.decompression import HEAD_BYTES, DamagedStreamError, open_decompressed
from corpusmill.corpus.document_options import CorpusReading, DocumentOptions
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.hub_data_sets import WIKITEXT, fetch_wikitext, is_hub_path, list_hub_files
from corpusmill.corpus.input_formats import (
    AS_TEXT,
    check_start,
    judge_name,
    look_at,
    read_file,
    reads_in_ranges,
    resolve_format,
    take_suffixes,
)
from corpusmill.corpus.registry import FORMATS
from corpusmill.dataset.manifest_entries import Evaluation, EvaluationFile
from corpusmill.errors import UserError, count_things, option
from corpusmill.knobs import knob
from corpusmill.location import scheme_of
from transforms.corpus.listed import open_listed
from transforms.elements import PlannedRange, cut_ranges
from transforms.storage.files import find_files, locate, locate_any, map_ahead, scratch_folder
from transforms.storage.objects import is_object_path
from transforms.storage.store import ListedFile

LOOKED_AT_FILES = knob("looked_at_files", 1000, test=2)
"""So many input files in stores are looked at before any work, and a tenth as many that bzip2 has
compressed, which takes as long; all others where they are read."""
LOOKED_AT_BYTES = knob("looked_at_bytes", 64 * 2**20, test=1000)
"""Files from this size on are all looked at, as several tasks may read them."""

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def choose_data_files(path: str, files: Mapping[str, ListedFile]) -> dict[str, ListedFile]:
    """Choose the files with the data if a folder is such a data set.

    Other Arrow files in it are caches of what was once computed from the data.

    Args:
        path: the input, as the user named it.
        files: what is known of each of its files, by path.

    Returns:
        The chosen files; all of them if the folder is not such a data set.

    Raises:
        UserError: the data set has several splits, or is incomplete.
    """
    # The folder nearest to the root that has one of the files.
    folder = min((file.rsplit("/", 1)[0] for file in files), key=lambda file: file.count("/"))
    splits = f"{folder}/{_SPLITS}"
    if splits in files:
        names = _read_json(path, splits).get("splits", [])
        if len(names) != 1:
            cause = f"it is a data set with {len(names)} splits: {', '.join(names) or 'none'}"
            name = "train" if "train" in names else [*names, "split"][0]
            cure = f"Give the folder of one split, such as {path.rstrip('/')}/{name}"
            raise UserError(option("input", path), cause, cure)
        folder = f"{folder}/{names[0]}"
    state = f"{folder}/{_STATE}"
    if state not in files or f"{folder}/{_INFO}" not in files:
        return dict(files)
    content = _read_json(path, state)
    if content.get("_indices_data_files"):
        cause = f"{state} refers to a selection of rows in a file of its own, as old releases of "
        cause += "datasets saved it"
        raise UserError(option("input", path), cause, "Load and save it again with a newer release")
    listed = [f"{folder}/{entry['filename']}" for entry in content.get("_data_files", [])]
    missing = [file for file in listed if file not in files]
    if missing or not listed:
        cause = f"{state} lists {missing[0]}, which is missing" if missing else "it has no rows"
        raise UserError(option("input", path), cause, "Save the data set again")
    return {file: files[file] for file in listed}


def _read_json(path: str, file: str) -> Any:
    try:
        return json.loads(read_bytes(file) or b"")
    except (ValueError, RecursionError) as error:
        raise UserError(
            option("input", path), f"{file} is not valid JSON ({error})", "Save the data set again"
        ) from None


# Compressed text is longer than its file, by this factor as an estimate.
EXPANSION = 4

# So many files of the hub are printed one by one.
_MOST_PRINTED = 10


@dataclass(frozen=True)
class InputFile:
    """One file of the corpus.

    Attributes:
        path: its path as workers open it; local paths are absolute.
        bytes: its size.
        name: its path in the manifest, relative to the folder that holds all files, so that the
            data set depends neither on the way they were named nor on where they are.
        modified: when it was last written, in seconds since 1970; 0 if its name identifies its
            content, as on the hub.
        looked_at: what its first bytes show, or its name alone; None for the name.
    """

    path: str
    bytes: int
    name: str
    modified: float = field(default=0.0, compare=False)
    looked_at: Content | None = field(default=None, compare=False)

    @cached_property
    def content(self) -> Content:
        """What it is, as far as is known."""
        return self.looked_at or judge_name(self.path)._replace(is_known=True)

    @property
    def planned(self) -> PlannedRange:
        """All of it, as it was listed, as the first file of an input."""
        end = self.bytes if self.content.is_in_ranges else None
        is_known = self.content.is_known or bool(self.content.format)
        return PlannedRange(self.path, self.name, 0, 0, end, self.bytes, self.modified, is_known)

    @property
    def cost(self) -> int:
        """Bytes that will be counted as read; an estimate if the file is compressed."""
        return self.bytes * EXPANSION if self.content.compression else self.bytes


def sum_costs(files: Sequence[InputFile]) -> int:
    """Sum the costs of files."""
    return sum(file.cost for file in files)


def estimate_text_bytes(files: Sequence[InputFile], documents: DocumentOptions) -> int:
    """Estimate the bytes of text in an input; exact for plain files.

    Args:
        files: the input.
        documents: the rules of documents, with a format.
    """
    compresses = FORMATS[documents.input_format].compresses
    return sum_costs(files) * (EXPANSION if compresses else 1)


def cut_files(
    files: Sequence[InputFile],
    documents: CorpusReading,
    range_bytes: int,
    first_file: int = 0,
) -> Iterator[PlannedRange]:
    """Cut files into ranges, as far as they can be read in ranges.

    Args:
        files: the input.
        documents: the rules of documents, with a format.
        range_bytes: the longest range.
        first_file: the number of the first file, by which `documents` knows it; ranges have 0.
    """
    parts = (
        file.planned
        if reads_in_ranges(documents.of_file(number))
        else file.planned._replace(end=None)
        for number, file in enumerate(files, first_file)
    )
    return cut_ranges(parts, range_bytes)


def read_bytes(path: str) -> bytes | None:
    """Read a small file; None if there is no such file.

    Raises:
        UserError: it is a pipe, a socket or a device, or nothing knows its URL.
    """
    return (locate_any if is_hub_path(path) else locate)(path).read_any()


def list_inputs(
    inputs: Sequence[str],
    temp_folder: str,
    documents: DocumentOptions | None = None,
    console: Console | None = None,
) -> list[InputFile]:
    """List all files of a corpus, each once, sorted by name, and look at their first bytes.

    What programs leave beside their data is left out, unless it is named by itself.

    Args:
        inputs: paths, globs, folders, or names of data sets on the hub.
        temp_folder: the folder into which WikiText is written as plain text.
        documents: which files of folders are taken, and the format if one was given.
        console: where files that are left out, and those of the hub, are announced.

    Raises:
        UserError: there is no input, one names no file or cannot be read, or all files are empty.
    """
    if not inputs:
        raise UserError(
            option("input"), "it has no value", "Name at least one file, glob or folder"
        )
    documents = documents or DocumentOptions()
    suffixes = documents.suffixes
    fetched: dict[str, InputFile] = {}
    stored: dict[str, ListedFile] = {}
    left_out: list[str] = []
    for path in inputs:
        if path in WIKITEXT and not Path(path).exists():
            fetched[path] = _fetch_wikitext(path, temp_folder)
        elif is_hub_path(path):
            listed = list_hub_files(path, suffixes)
            fetched |= {name: InputFile(name, size, name) for name, size in listed.items()}
        else:
            list_files = _list_remote if scheme_of(path) else _list_local
            paths = list_files(path, temp_folder, suffixes)
            if not paths:
                cure = "Check the path; globs such as 'corpus/*.txt' work, quoted"
                raise _refusal(path, "no such file", cure)
            paths = choose_data_files(path, paths)
            data, others = _leave_out(path, paths)
            stored |= data
            left_out += others
    files = sorted(
        [*_name_files(stored), *fetched.values()], key=lambda file: (file.name, file.path)
    )
    if not sum(file.bytes for file in files):
        raise UserError(option("input", inputs), "all files are empty", "Name files that hold text")
    if console:
        _print_files(files, left_out, console)
    chosen = documents.input_format
    return look_at_files(files, "" if chosen == "auto" else chosen)


def _name_files(stored: Mapping[str, ListedFile]) -> Iterator[InputFile]:
    """Name files by their paths below the folder that holds all of them."""
    levels = zip(*(path.split("/")[:-1] for path in stored), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    for path, size, modified in stored.values():
        yield InputFile(path, size, _name(path.split("/")[common:]), modified)


# Of Spark, Hadoop, Hive, Databricks and Delta Lake, which also keep checksums.
_LEFT_BEHIND = re.compile(
    r"_SUCCESS|_(common_)?metadata|_(committed|started)_.*|_temporary|_spark_metadata|_delta_log"
    r"|.+\.crc"
)


def _leave_out(
    path: str, files: Mapping[str, ListedFile]
) -> tuple[dict[str, ListedFile], list[str]]:
    """Return the files of an input that may hold data, and the paths of the others."""
    fixed = "/".join(takewhile(lambda part: not glob.has_magic(part), path.split("/")))
    base = locate(fixed or ("/" if path.startswith("/") else ".")).url
    others = {
        file: None
        for file in files
        if any(map(_LEFT_BEHIND.fullmatch, file.removeprefix(base).split("/")))
    }
    if len(others) == len(files):
        cause = f"it has nothing but what programs leave beside data, such as {next(iter(others))}"
        raise _refusal(path, cause, "Check the path")
    return {file: entry for file, entry in files.items() if file not in others}, [*others]


def _name(parts: Sequence[str]) -> str:
    """Join a name for the manifest, which is UTF-8: other bytes become escapes."""
    return "/".join(parts).encode(errors="backslashreplace").decode()


def _fetch_wikitext(name: str, temp_folder: str) -> InputFile:
    with scratch_folder(temp_folder) as folder:
        text = fetch_wikitext(name, Path(folder) / name)
        if folder == temp_folder:
            return InputFile(str(text), text.stat().st_size, name)
        copy = locate(temp_folder) / text.name
        with text.open("rb") as source, copy.create() as target:
            shutil.copyfileobj(source, target, 2**20)
        return InputFile(copy.url, text.stat().st_size, name)


# Of an object in a store, to look at it: compressed text of as much as is judged.
_FETCHED_BYTES = 2**18
# These have blocks that may be longer, and no text before the end of the first one.
_LARGE_BLOCKS = {".bz2", ".lz4"}


def look_at_files(files: Sequence[InputFile], input_format: str = "") -> list[InputFile]:
    """Look at the first bytes of files, so that they are read as what they are.

    All files on this machine are looked at, and all large ones. Of files that take longer, in
    stores or compressed by bzip2, some at even distances are; the others are judged where they are
    read, each as a whole.

    Args:
        files: the input.
        input_format: the format that someone has chosen for all of them, if there is one.
    """
    far = [file.path for file in files if scheme_of(file.path)]
    slow = [file.path for file in files if file.path.lower().endswith((".bz2", ".tbz2"))]
    others = _skip(far, LOOKED_AT_FILES) | _skip(slow, LOOKED_AT_FILES // 10)
    chosen = [
        file.path
        for file in files
        if file.bytes and (file.path not in others or file.bytes >= LOOKED_AT_BYTES)
    ]
    planned = {file.path: file.planned for file in files}
    ranges = map(planned.__getitem__, chosen)
    contents = map_ahead(_look_at, ranges) if far else map(_look_at, ranges)
    # What someone has called text is not in doubt.
    found = (content._replace(resembles="") if input_format else content for content in contents)
    known = dict(zip(chosen, found, strict=True))
    return [
        replace(file, looked_at=known.get(file.path) or judge_name(file.path, input_format))
        for file in files
    ]


def _skip(paths: Sequence[str], most: int) -> set[str]:
    """Return all paths but so many at even distances."""
    return {*paths} - {*paths[:: max(1, -(-len(paths) // max(1, most)))]}


def _look_at(planned: PlannedRange) -> Content:
    if scheme_of(planned.file) is None:
        with open(planned.file, "rb") as raw:  # noqa: PTH123  the path is text
            return look_at(raw, planned.file)
    if is_object_path(planned.file) and (planned.bytes or 0) > _FETCHED_BYTES:
        begin = planned._replace(bytes=_FETCHED_BYTES)
        with open_listed(begin, _FETCHED_BYTES + 1) as raw:
            content = look_at(raw, planned.file, HEAD_BYTES)
        if not content.has_open_line and content.compression not in _LARGE_BLOCKS:
            return content
    with open_listed(planned, _FETCHED_BYTES + 1) as raw:
        return look_at(raw, planned.file)


def choose_format(
    files: Sequence[InputFile], options: DocumentOptions, console: Console, source: str = ""
) -> DocumentOptions:
    """Return the options with the format of the files, which is printed if it is inferred.

    Files may be those of a source, whose name is printed, too.

    Raises:
        UserError: the files have several formats, one has none that is read, the first file lacks
            the text field, or the first records a field of the condition.
    """
    resolved = resolve_format(options, {file.path: file.content for file in files if file.bytes})
    if resolved.input_format not in {options.input_format, "text"}:
        of = f" of {source}" if source else ""
        console.print(f"input format{of}: {resolved.input_format}, by what the files are")
    first = next(file for file in files if file.bytes)
    with open_listed(first.planned) as raw, suppress(DamagedStreamError):
        try:
            check_start(open_decompressed(raw, first.path), first.path, resolved)
        except UserError as error:
            # What its first bytes are taken for may be a mistake; texts are made of records alone.
            is_guess = options.input_format == "auto" and options.text_maker is None
            if first.content.is_text and first.content.format and is_guess:
                error.advise(AS_TEXT)
            raise
    openers = [partial(open_listed, file.planned) for file in files if file.bytes]
    return settle_condition(resolved, openers)


def _print_files(files: Sequence[InputFile], left_out: Sequence[str], console: Console) -> None:
    """Print which files of the hub a data set is built from, and which files are left out."""
    names = [file.name for file in files if is_hub_path(file.path)]
    lines = [f"input: {name}" for name in names[:_MOST_PRINTED]]
    if len(names) > _MOST_PRINTED:
        lines.append(f"input: {len(names):,} files in all, the last is {names[-1]}")
    if left_out:
        shown = ", ".join(sorted({path.rsplit("/", 1)[-1] for path in left_out})[:3])
        number = count_things(len(left_out), "file")
        lines.append(f"input: left out {number} without data ({shown})")
    for line in lines:
        console.print(line)


def _refusal(path: str, cause: str, cure: str) -> UserError:
    return UserError(option("input", path), cause, cure)


def _list_local(path: str, temp_folder: str, suffixes: Sequence[str]) -> dict[str, ListedFile]:
    # Beam's own listing silently leaves out what it cannot read.
    root = Path(locate(path).url)
    if root.is_dir():
        if locate(temp_folder).is_within(locate(path)):
            cure = "Give an output folder elsewhere"
            raise _refusal(path, "the output folder is inside it", cure)
        paths = list(_walk(path, str(root)))
        if not paths:
            raise _refusal(path, "the folder has no files", "Check the path")
        paths = take_suffixes(path, paths, suffixes)
    elif os.path.lexists(root):
        paths = [str(root)]
    else:
        pattern = str(Path(path).expanduser())
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207  has a pattern's root
        paths = [locate(path).url for path in matches if not Path(path).is_dir()]
    return {path: _stat(path) for path in paths}


def _walk(path: str, root: str) -> Iterator[str]:
    """Yield the files below a folder; links to folders are followed, and each folder read once."""

    def refuse(error: OSError) -> None:
        cause = f"{error.filename} cannot be listed ({error.strerror})"
        raise _refusal(path, cause, "Change its permissions, or leave it out") from None

    walked: set[tuple[int, int]] = set()
    # Paths as text: to make a `Path` for each file takes longer than to list it.
    for folder, folders, names in os.walk(root, onerror=refuse, followlinks=True):
        status = os.stat(folder)  # noqa: PTH116
        if (status.st_dev, status.st_ino) in walked:
            folders.clear()
            continue
        walked.add((status.st_dev, status.st_ino))
        folders.sort()
        yield from (f"{folder.rstrip('/')}/{name}" for name in names if not name.startswith("."))


def _stat(path: str) -> ListedFile:
    """Return the size and time of a local file, which must be readable."""
    try:
        # Opening a pipe would wait without this flag.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            result = os.fstat(handle)
        finally:
            os.close(handle)
    except OSError as error:
        cause = f"it cannot be read ({error.strerror})"
        raise _refusal(path, cause, "Change its permissions, or leave it out") from None
    if not stat.S_ISREG(result.st_mode):
        raise _refusal(path, "it is not a regular file", "Write its text to a file")
    return ListedFile(path, result.st_size, result.st_mtime)


def _list_remote(path: str, _: str, suffixes: Sequence[str]) -> dict[str, ListedFile]:
    try:
        locate(path)  # it says what is missing for such URLs
        listed = find_files(path)
    except (OSError, ValueError) as error:
        raise _refusal(path, f"it cannot be listed ({error})", "Check the path") from None
    except UserError as error:
        raise error.about(option("input", path)) from None
    files = {
        file.path: file
        for file in listed
        if not file.path.endswith("/") and not file.path.rsplit("/", 1)[-1].startswith(".")
    }
    is_folder = path.endswith("/") or (not glob.has_magic(path) and path not in files)
    if files and is_folder:
        return {name: files[name] for name in take_suffixes(path, list(files), suffixes)}
    return files


_EVALUATION = "drop_overlap_with"


def read_evaluation(
    paths: Sequence[str], text_field: str, temp_folder: str
) -> tuple[Passages, Evaluation]:
    """Read an evaluation set: a passage is a line, or the text of a record.

    Args:
        paths: files, globs, folders, or names of data sets on the hub.
        text_field: the field of records that holds the text.
        temp_folder: a folder for data sets that are fetched from the hub.

    Returns:
        The passages, and what the manifest says of them.

    Raises:
        UserError: a file cannot be read, or holds what cannot be read; there are too many passages,
            or only short ones.
    """
    entries = list[EvaluationFile]()
    try:
        files = list_inputs(paths, temp_folder)
        texts = (text for file in files for text in _read_passages(file, text_field, entries))
        passages = Passages.from_texts(texts)
    except UserError as error:
        # The evaluation set is read as an input is.
        named = error.renamed(
            "input", lambda path: option(_EVALUATION, path) if path else option(_EVALUATION)
        )
        raise named.renamed(_EVALUATION, lambda path: option(_EVALUATION, path or paths)) from None
    digest = hashlib.sha256(passages.runs.astype("<u8").tobytes()).hexdigest()
    entry = Evaluation(
        tuple(entries), passages.compared, passages.ignored, len(passages.runs), digest
    )
    return passages, entry


def _read_passages(
    file: InputFile, text_field: str, entries: list[EvaluationFile]
) -> Iterator[str]:
    """Yield the passages of a file, and add what the manifest says of it to the entries."""
    options = DocumentOptions(text_field=text_field, sentence_rule="document")
    options = resolve_format(options, {file.path: file.content})
    if options.input_format == "text":
        options = replace(options, input_format="lines")
    digest = hashlib.sha256()
    with open_listed(file.planned) as raw:
        while block := raw.read(2**20):
            digest.update(block)
        entries.append(EvaluationFile(file.name, file.bytes, digest.hexdigest()))
        raw.seek(0)
        for batch in read_file(raw, FileRange(file.name, 0, options)):
            for reject in batch.rejects:
                cause = f"byte {reject.offset} begins what cannot be read ({reject.reason})"
                cure = (
                    "Repair the file, or name the field that holds its text "
                    f"({option('text_field')})"
                )
                raise UserError(option(_EVALUATION, file.name), cause, cure)
            yield from batch.documents.column("sentences").flatten().to_pylist()
