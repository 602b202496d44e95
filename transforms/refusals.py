"""Why a run is refused: known documents before any is tokenized, all else at its end."""

from collections.abc import Mapping, Sequence

from corpusmill.corpus.batches import Reject, RejectColumns
from corpusmill.corpus.filters.duplicates import KNOWN, NOTHING_LEFT
from corpusmill.corpus.reject_lines import read_rejects
from corpusmill.dataset.accounting import (
    count_dropped,
    count_reasons,
    measure_rejected_records,
    measure_rejects,
)
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import RefusedError, UserError, count_things, option, printable
from corpusmill.inspection.facts import USUAL
from corpusmill.inspection.findings import find
from transforms.elements import LinesFile
from transforms.storage.files import open_file


def check_rejects(
    counts: dict[str, int],
    max_rejects: float | None,
    files: Sequence[SourceFile] = (),
    rejects: Sequence[LinesFile] = (),
) -> None:
    """Refuse a corpus with more rejects than allowed.

    Args:
        counts: counts of all stages.
        max_rejects: a number from 1, or a share below 1 of the lines and rows, of the bytes, of
            the files and of their stored bytes; 0 allows none, None allows all.
        files: the input files.
        rejects: the files of rejects, of which the first is told.

    Raises:
        UserError: there are more rejects.
    """
    if max_rejects is None:
        return
    loss = measure_rejected_records(counts)
    is_excess = loss.part > max_rejects
    if max_rejects < 1:
        is_excess = loss.exceeds(max_rejects)
        if not is_excess:
            loss = measure_rejects(counts, files)
            is_excess = loss.exceeds(max_rejects)
    if is_excess:
        verb = loss.verb.replace("are rejects", "is a reject") if loss.part == 1 else loss.verb
        cause = f"{loss.part:,} of {loss.whole:,} input {loss.unit} {verb}"
        cause += name_first(rejects)
        cure = (
            "Repair the input, or allow more; a run without "
            f"{option('max_rejects')} lists them in a file of the data set"
        )
        allowed = int(max_rejects) if float(max_rejects).is_integer() else max_rejects
        raise UserError(option("max_rejects", allowed), cause, cure)


# Reasons for which what makes texts of records refuses them: the format was right.
_OF_RECORDS = ("template-refuses", "not-a-conversation")
# A file is lost with so much of it, and a corpus with more than that of its files or bytes.
_LOST_OF_FILE, _LOST_OF_FILES = 0.9, USUAL["rejects"].high


def refuse_lost_files(
    files: Sequence[SourceFile],
    lost: Mapping[int, int],
    first_file: int,
    rejects: Sequence[LinesFile],
) -> None:
    """Refuse a corpus with files of which nearly all became rejects, unless they are few of many.

    Args:
        files: the input files.
        lost: by the numbers of files, bytes in ranges of which nearly all is rejects.
        first_file: the number of the first file.
        rejects: the files of rejects.

    Raises:
        UserError: names the first such file and its first reject.
    """
    sizes = {file.path: file.bytes for file in files}
    names = [
        files[number - first_file].path
        for number, size in sorted(lost.items())
        if size >= _LOST_OF_FILE * files[number - first_file].bytes
    ]
    if not names:
        return
    share = max(len(names) / len(files), sum(map(sizes.__getitem__, names)) / sum(sizes.values()))
    if share <= _LOST_OF_FILES:
        return
    others = f", and of {count_things(len(names) - 1, 'other file')}" if len(names) > 1 else ""
    cause = f"nearly all lines and rows of it{others} are rejects"
    cure = f"Repair it, leave it out, give {option('input_format', 'text')} if it is a text, or "
    found = (first for some in sorted(rejects) if (first := _find_first(some, names[0])))
    if first := next(found, None):
        cause += _describe(first)
        if first.reason == "invalid-utf-8":
            cure = "Convert it to UTF-8, as by: iconv -f WINDOWS-1252 -t UTF-8; or "
        if first.reason in _OF_RECORDS:
            cure = "Repair it, leave it out, or "
    cure += f"give {option('max_rejects')} the share of the lines that may be lost"
    raise RefusedError(option("input", names[0]), cause, cure)


def name_first(files: Sequence[LinesFile]) -> str:
    """Return where the first reject is, and what is wrong with it; nothing if there is none."""
    first = _find_first(min(files)) if files else None
    return _describe(first) if first else ""


def _find_first(rejects: LinesFile, file: str = "") -> Reject | RejectColumns | None:
    """Return the first reject of a file, or of any."""
    with open_file(rejects.path) as stream:
        return next((one for one in read_rejects(stream) if file in {"", one.file}), None)


def _describe(first: Reject | RejectColumns) -> str:
    if isinstance(first, Reject):
        row, offset, detail = first.row, first.offset, f" ({first.detail})"
    else:  # one of many in a line, without details
        row, offset, detail = None if first.rows is None else first.rows[0], first.offsets[0], ""
    place = f"byte {offset:,}" if row is None else f"row {row:,}"
    return printable(f"; the first is at {place} of {first.file}: {first.reason}{detail}")


def explain_emptiness(
    output: str, counts: Mapping[str, int], files: Sequence[LinesFile] = ()
) -> UserError:
    """Make the error for a corpus of which no example was built.

    Args:
        output: folder of the data set.
        counts: counts of all stages.
        files: the files of rejects, of which the first is told.
    """
    documents, tokens = counts.get("read.documents", 0), counts.get("tokenize.tokens", 0)
    lines = counts.get("read.lines", 0) + counts.get("read.rows", 0)
    rejects = counts.get("read.rejects", 0)
    return RefusedError(
        option("output", output),
        f"no example was built: of {lines:,} lines and rows "
        f"{count_things(rejects, 'is a reject', 'are rejects')}, and they gave "
        f"{count_things(documents, 'document')} with {count_things(tokens, 'token')}",
        _find_cure(counts, documents, files),
    )


def _find_cure(counts: Mapping[str, int], documents: int, files: Sequence[LinesFile]) -> str:
    """Return what to do where no example was built."""
    length = option("max_seq_length")
    if documents and counts.get(f"filter.dropped.{KNOWN}", 0) == documents:
        cure = NOTHING_LEFT
    elif documents and counts.get("filter.dropped", 0) == documents:
        reasons = ", ".join(f"{name} {number:,}" for name, number in count_dropped(counts).items())
        cure = f"All documents were dropped ({reasons}): check the filters"
    elif counts.get("build.long_documents"):
        cure = f"The documents are longer than a row, and are never cut: give a larger {length}"
    elif counts.get("tokenize.tokens"):
        cure = "The documents are too short for this objective: check how they are divided into "
        cure += f"sentences ({option('sentence_rule')}), and the length of a row ({length})"
    elif documents and counts.get("tokenize.control_characters"):
        cure = "The input has control characters: it is no text, or must be converted to UTF-8"
    elif documents:
        cure = "Use a tokenizer for the language of the text"
    elif counts.get("read.rejects"):
        reasons = ", ".join(count_reasons(counts))
        cure = f"The rejects have the reasons {reasons}{name_first(files)}: check the input, "
        if not any(f"read.rejects.{reason}" in counts for reason in _OF_RECORDS):
            cure += f"or give {option('input_format', 'text')} if it is a text; "
        cure += "`inspect-corpus` shows the first of them"
    else:
        blank = f"check {option('input')} and {option('document_rule')}"
        cure = f"The input holds only blank lines and titles: {blank}"
    return cure


def refuse_findings(manifest: Manifest) -> None:
    """Refuse a data set of little use.

    Args:
        manifest: with its results.

    Raises:
        UserError: it has findings.
    """
    if findings := find(manifest, spelling=None):
        cause = "; ".join(finding.what for finding in findings)
        cures = "; ".join(dict.fromkeys(finding.cure for finding in findings))
        raise UserError(option("strict"), cause, f"{cures}; or leave {option('strict')} out")


def refuse_known(counts: Mapping[str, int]) -> None:
    """Refuse to add documents to a data set that holds their texts already.

    Args:
        counts: how many documents were read, and how many of them are known
            (`transforms.corpus.known_texts`).

    Raises:
        UserError: there are known ones.
    """
    if known := counts.get("known.documents", 0):
        cause = f"the data set holds the text of {known:,} of {counts['known.read']:,} documents "
        cure = (
            f"Add {option('existing', 'skip')} to leave them out, or "
            f"{option('existing', 'allow')} to add them once more"
        )
        raise RefusedError(option("append"), f"{cause}already", cure)
