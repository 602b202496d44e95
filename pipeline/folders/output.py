"""The output folder before a run."""

import os
import re
import socket
from collections.abc import Container, Iterable, Iterator
from functools import cache

import psutil

from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, TOKENIZER
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.shards import GENERATION, is_generation, open_data_set
from corpusmill.errors import UserError, option
from corpusmill.formats.shard_formats import FORMATS, all_suffixes
from corpusmill.formats.shard_names import PART, SPLIT_GROUP, matcher_of
from corpusmill.location import Location, refuse_special
from pipeline.folders.run_folder import find_temporary_folders, is_folder_of_run
from transforms.recovery import CLAIM, COMMITTED, Claim, count_silence, drop_claim, read_claim
from transforms.storage.file_systems import split_path
from transforms.storage.files import file_exists, remove_folder


def settle(output: Location) -> bool:
    """Give the files of a generation that readers already see their final names.

    It may be stopped at any moment and begun again; readers see the same data set throughout.

    Args:
        output: the folder of a data set, into which no run writes.

    Returns:
        Whether there was anything to do.

    Raises:
        UserError: the data set is damaged.
    """
    name = read_reference(output)
    if not name:
        return False
    # They import Beam, which takes a second.
    from transforms.commit.rename import Move  # noqa: PLC0415
    from transforms.commit.replace import publish_files  # noqa: PLC0415

    open_data_set(output)
    folder = output / name
    begin, listed = f"{name}/", output.list().items()
    sizes = {file.removeprefix(begin): size for file, size in listed if file.startswith(begin)}
    last = [file for file in (MANIFEST, SUCCESS) if file in sizes]
    for group in ([file for file in sizes if file not in last], *([file] for file in last)):
        publish_files(
            [Move((folder / file).url, (output / file).url, sizes[file]) for file in group]
        )
    remove_folder(folder.url)
    return True


def read_reference(place: Location) -> str:
    """Return the name of the generation to which readers are passed on; empty for none."""
    try:
        content = place.read(SUCCESS)
    except OSError:
        return ""
    name = content.decode(errors="replace").strip().partition(" ")[2]
    return name if is_generation(name) else ""


# After which the job of a run whose command is gone is taken for dead. Flink needs a minute to
# notice that a machine is lost, and three for some workers.
_SECONDS_OF_SILENCE = 300.0


@cache
def _our_names() -> re.Pattern[str]:
    """Match the names of the files of a data set and of a run, in any format."""
    suffixes, fixed = set[str](), {SUCCESS, MANIFEST, CARD, TOKENIZER, REJECTS}
    joined = list[str]()
    for shard_format in FORMATS.values():
        suffixes |= all_suffixes(shard_format)
        joined += [rf"{re.escape(name)}({PART})?" for name in shard_format.joined.values()]
        fixed |= set(shard_format.companion_names)
    numbered = rf"{SPLIT_GROUP}-\d{{5}}-of-\d{{5}}"
    return re.compile(
        rf"({'|'.join([numbered, *joined])})({'|'.join(map(re.escape, sorted(suffixes)))})"
        rf"|{'|'.join(map(re.escape, sorted(fixed)))}"
        rf"|provenance/[^/]+\.parquet|rejects/rejects-more\d+\.jsonl|{CLAIM}\.[0-9a-f]{{32}}|{GENERATION}/.*"
    )


def check_output(
    output: Location,
    replace: bool,
    shard_name: str | None = None,
    resume: bool = False,
    temp_location: Location | None = None,
    resumable: bool = True,
) -> tuple[str, ...]:
    """Refuse an output folder that is in use, and with --replace one with files that are not ours.

    Args:
        output: the folder.
        replace: whether a data set in it may be replaced.
        shard_name: the pattern of the names of the new shards, of which a failed run may have left
            some.
        resume: whether a run into it that was stopped may be resumed.
        temp_location: where temporary folders are made; in the output folder by default.
        resumable: whether the command can resume runs at all.

    Returns:
        The files that the commit replaces.

    Raises:
        UserError: the folder is refused.
        NotAFileError: it has something else in the place of a file.
    """
    if not output.url.strip("/"):
        cause = "it is the folder that holds everything on this machine"
        raise UserError(option("output", output), cause, "Name a folder in it")
    try:
        claim, listed = read_claim(output.url), output.list()
    except UserError as error:  # of an object store
        raise UserError(option("output", output), *error.args[1:]) from None
    for path in map(output.local_path, listed):
        if path:
            refuse_special(path)
    is_ours = claim is not None and is_folder_of_run(claim.temp_folder, output, temp_location)
    if claim is not None:
        refuse_alive(claim, output, is_ours)
    if resume and SUCCESS in listed and (claim is None or claim.ended == COMMITTED):
        return tuple(listed)
    if resume and claim is not None:
        _refuse_lost(claim, output, is_ours)
    stopped = split_path(claim.temp_folder)[1] if claim is not None and is_ours else ""
    folders = find_temporary_folders(listed)
    ignored = {CLAIM, stopped, *(folder for folder, files in folders.items() if not files)}
    names = [name for name in listed if name.split("/")[0] not in ignored]
    foreign = _find_foreign(output, names, folders, shard_name)
    resumes = resume and claim is not None and not foreign
    if (names or claim) and not (replace or resumes):
        raise _in_use(output, names, foreign, claim if resumable else None)
    if foreign:
        raise UserError(
            f"{option('output', output)} {option('resume' if resume else 'replace')}",
            f"it has a file that is not part of a data set ({foreign[0]})",
            "Move that file away, or give another folder",
        )
    return tuple(names)


def check_appendable(output: Location, resume: bool, temp_location: Location | None) -> bool:
    """Refuse an output folder to whose data set nothing can be added now.

    Args:
        output: the folder.
        resume: whether a run that adds to it and was stopped may be resumed.
        temp_location: where temporary folders are made; in the output folder by default.

    Returns:
        Whether the run that is to be resumed has done all of its work.

    Raises:
        UserError: the folder is refused.
    """
    try:
        claim, listed = read_claim(output.url), output.list()
    except UserError as error:  # of an object store
        raise UserError(option("output", output), *error.args[1:]) from None
    if claim is None and SUCCESS in listed:
        settle(output)
        return False
    if claim is None:
        cause = "there is no complete data set to which anything could be added"
        raise UserError(
            f"{option('output', output)} {option('append')}",
            cause,
            f"Leave {option('append')} out, or build one first",
        )
    is_ours = is_folder_of_run(claim.temp_folder, output, temp_location)
    refuse_alive(claim, output, is_ours)
    if resume:
        _refuse_lost(
            claim, output, is_ours, f"Remove {output}/{CLAIM}, and leave {option('resume')} out"
        )
        return claim.ended == COMMITTED and is_complete(output, temp_location)
    seal = output.read_any(SUCCESS) or b""
    if SUCCESS not in listed or not is_ours or b" " in seal.strip():
        cause = "a run was stopped that wrote into this folder"
        cure = f"Run the command again that was stopped, a build with {option('resume', True)}"
        raise UserError(f"{option('output', output)} {option('append')}", cause, cure)
    return False


def find_files_of(tag: str, names: Iterable[str], shard_name: str | None) -> Iterator[str]:
    """Yield the names that files of a generation have, those of the commit's own folder included.

    Args:
        tag: of the generation.
        names: the names.
        shard_name: the pattern of the names of shards.
    """
    patterns = [_our_names(), *([matcher_of(shard_name)] if shard_name else [])]
    tagged = re.compile(rf"-{tag}(?!\w)")
    for name in names:
        is_own = tagged.search(name) or is_generation(name.partition("/")[0])
        if is_own and any(pattern.fullmatch(name) for pattern in patterns):
            yield name


def _find_foreign(
    output: Location, names: Iterable[str], folders: Container[str], shard_name: str | None
) -> list[str]:
    """Return the names of the files that belong neither to a data set nor to a run."""
    patterns = [_our_names(), *([matcher_of(shard_name)] if shard_name else [])]
    foreign = [
        name
        for name in names
        if not any(pattern.fullmatch(name) for pattern in patterns)
        and name.split("/")[0] not in folders
    ]
    known = _list_shards(output) if foreign else set()
    return [name for name in foreign if name not in known]


def is_complete(output: Location, temp_location: Location | None) -> bool:
    """Return whether a folder has a complete data set, and remove what its run has left there.

    Args:
        output: the folder, which `check_output` has accepted.
        temp_location: where temporary folders are made; in the output folder by default.
    """
    claim = read_claim(output.url)
    if claim is not None:
        if claim.ended != COMMITTED:
            return False
        # Its command was killed before it had removed them.
        if is_folder_of_run(claim.temp_folder, output, temp_location):
            remove_folder(claim.temp_folder)
        drop_claim(output.url, claim.token)
    return file_exists((output / SUCCESS).url)


def refuse_alive(claim: Claim, output: Location, is_ours: bool) -> None:
    """Refuse a folder into which a run writes that has not ended.

    Args:
        claim: of the run.
        output: the folder.
        is_ours: whether its temporary folder is that of a run into this folder.

    Raises:
        UserError: the run is alive, or may be.
    """
    if _is_alive(claim):
        raise UserError(
            option("output", output),
            f"another run (process {claim.process}) writes into this folder",
            "Wait for it, or give another folder",
        )
    if not (claim.outlives and is_ours and not claim.ended):
        return
    silence = count_silence(claim.temp_folder)
    if silence < _SECONDS_OF_SILENCE:
        raise UserError(
            option("output", output),
            f"the job of another run (process {claim.process} on {claim.host}) writes into this "
            f"folder; its last sign of life is {max(silence, 0):.0f} seconds old",
            f"Wait for it, or give another folder; if it has ended on its engine, wait until "
            f"{_SECONDS_OF_SILENCE:.0f} seconds have passed",
        )


def _refuse_lost(
    claim: Claim,
    output: Location,
    is_ours: bool,
    over: str = f"Start over with {option('replace', True)}",
) -> None:
    """Refuse to resume a run whose work cannot be found, or is not in a folder of its own."""
    if claim.is_damaged:
        raise UserError(
            option("resume"),
            f"{output}/{CLAIM} is damaged, as after a power failure, and does not tell where the "
            "stopped run has left its work",
            over,
        )
    if not is_ours:
        raise UserError(
            option("resume"),
            f"the stopped run worked in {claim.temp_folder}, which is not a temporary folder of "
            f"runs into {output}",
            f"If it was started with {option('temp_location')}, give the same one; "
            "if its folder was moved, "
            f"copied or removed: {over[0].lower()}{over[1:]}",
        )


def _is_alive(claim: Claim) -> bool:
    """Whether the process that made a claim is still running on this machine."""
    # A run of this very process has failed; that of another machine cannot be asked.
    if claim.ended or claim.host != socket.gethostname() or claim.process == os.getpid():
        return False
    try:
        return bool(abs(psutil.Process(claim.process).create_time() - claim.started) < 1)
    except psutil.Error:
        return False


_BOTH = [f"add {option('resume', True)}", f"add {option('replace', True)}"]


def _in_use(
    output: Location, names: list[str], foreign: list[str], claim: Claim | None
) -> UserError:
    unfinished = claim is not None or (SUCCESS not in names and not foreign)
    cause = f"it is not empty ({names[0]})" if names and not unfinished else ""
    if claim is not None and claim.mistake:
        # Nobody may have waited for the run to say it.
        cause = (
            f"it has an unfinished data set (its run ended with: {': '.join(claim.mistake[:2])})"
        )
    cures = [f"add {option('replace', True)}"] if claim is None or claim.is_damaged else _BOTH
    cure = f"Give another folder, or {', or '.join(cures)}"
    return UserError(
        option("output", output),
        cause or "it has an unfinished data set",
        "Give a new or an empty folder" if foreign else cure,
    )


def _list_shards(output: Location) -> set[str]:
    """List the files that the manifest in a folder names, whatever their names are."""
    content = output.read_any(MANIFEST)
    try:
        return set(decode(content or b"", str(output)).entries)
    except UserError:
        return set()
