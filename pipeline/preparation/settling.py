"""A data set whose files were being replaced when the run was stopped, and how that is finished."""

from corpusmill.dataset.generations import is_generation
from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.dataset.shards import open_data_set
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import absolute
from transforms.storage.file_systems import join_path
from transforms.storage.files import remove_folder


def settle(output: str) -> bool:
    """Give the files of a generation that readers already see their final names.

    It may be stopped at any moment and begun again; readers see the same data set throughout.

    Args:
        output: the folder of a data set, into which no run writes.

    Returns:
        Whether there was anything to do.

    Raises:
        UserError: the data set is damaged.
    """
    place, root = BeamFolder(output), absolute(output)
    name = read_reference(place)
    if not name:
        return False
    # They import Beam, which takes a second.
    from transforms.recovery.publish import Move  # noqa: PLC0415
    from transforms.recovery.reveal import publish_files  # noqa: PLC0415

    open_data_set(place)
    folder = join_path(root, name)
    begin, listed = f"{name}/", place.list().items()
    sizes = {file.removeprefix(begin): size for file, size in listed if file.startswith(begin)}
    last = [file for file in (MANIFEST, SUCCESS) if file in sizes]
    for group in ([file for file in sizes if file not in last], *([file] for file in last)):
        publish_files(
            [
                Move(
                    join_path(folder, *file.split("/")),
                    join_path(root, *file.split("/")),
                    sizes[file],
                )
                for file in group
            ]
        )
    remove_folder(folder)
    return True


def read_reference(place: BeamFolder) -> str:
    """Return the name of the generation to which readers are passed on; empty for none."""
    try:
        content = place.read(SUCCESS)
    except OSError:
        return ""
    name = content.decode(errors="replace").strip().partition(" ")[2]
    return name if is_generation(name) else ""
