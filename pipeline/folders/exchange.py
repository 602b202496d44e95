"""Finish what a run has begun in the folder of a data set, or remove what it has left there.

Both can be stopped at any moment and begun again; readers see the same data set throughout. Only
the run that holds the claim on the folder does either.
"""

from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.dataset.ownership import (
    OwnFiles,
    delete_own,
    remove_empty_generations,
    remove_generation,
    remove_named,
)
from corpusmill.dataset.shards import damaged_file, open_data_set
from pipeline.folders.output import Standing
from pipeline.folders.temporary_folder import folder_of_run, is_place_of_run, name_of_folder
from transforms.storage.files import locate


def finish_exchange(standing: Standing) -> None:
    """Give the files of a data set that readers already see their final names.

    Args:
        standing: of the folder, in which a run has revealed a data set.

    Raises:
        UserError: the data set is damaged.
    """
    if standing.generation:
        open_data_set(standing.output)
        _move_generation(standing)
    _remove_generations(standing)
    _remove_temporary(standing)


def remove_leftovers(standing: Standing) -> None:
    """Remove what stopped runs have left that is not resumed; a whole data set stays.

    Args:
        standing: of the folder.
    """
    if standing.seal is None:
        owned = standing.own.of_data_set
        names = [*sorted(owned - {MANIFEST}), *(owned & {MANIFEST})]
        delete_own(standing.output, names, owned)
    _remove_generations(standing)
    _remove_temporary(standing)


def _move_generation(standing: Standing) -> None:
    # They import Beam, which takes a second.
    from transforms.commit.rename import Move  # noqa: PLC0415
    from transforms.commit.replace import publish_files  # noqa: PLC0415

    output, own, name = standing.output, standing.own, standing.generation
    if name not in own.generations:
        raise damaged_file(output, f"{name}/{MANIFEST}", "it does not match its folder's name")
    new = own.generations[name]
    stale = own.of_data_set - new.entries.keys() - {MANIFEST, SUCCESS}
    delete_own(output, sorted(stale), own.of_data_set)
    begin = f"{name}/"
    sizes = {
        file.removeprefix(begin): own.listed[file]
        for file in own.of_generations
        if file.startswith(begin)
    }
    # A manifest beside files of the old data set would be that of nothing.
    last = [file for file in (MANIFEST, SUCCESS) if file in sizes]
    for group in ([file for file in sizes if file not in last], *([file] for file in last)):
        moves = [
            Move((output / f"{begin}{file}").url, (output / file).url, sizes[file])
            for file in group
        ]
        publish_files(moves, (output / name).url)


def _remove_generations(standing: Standing) -> None:
    """Remove all generations, with what they were to add to the data set."""
    output = standing.output
    # Without a generation there is nothing to list once more.
    listed = output.list() if standing.own.generations else {}
    own = OwnFiles.find(output, listed)
    current = own.manifest.entries if own.manifest else {}
    for name, manifest in own.generations.items():
        added = {
            entry.file
            for entry in manifest.entries.values()
            if entry.file not in current and listed.get(entry.file) == entry.bytes
        }
        delete_own(output, sorted(added), added)
        remove_generation(output, name)
    remove_empty_generations(output)


def _remove_temporary(standing: Standing) -> None:
    """Remove the temporary folder of the run with the claim, and of dead runs without one."""
    claim, output = standing.claim, standing.output
    if claim is not None and (name := name_of_folder(claim)):
        # In the output folder, or for copies from another disk.
        remove_named(output / name)
        if is_place_of_run(claim.temp_folder, output, standing.temp_location):
            folder_of_run(locate(claim.temp_folder), output).discard()
    for folder in standing.orphans:
        folder.discard()
