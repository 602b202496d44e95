"""Objects of a store that change while they are read."""

from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from tests.tools.knobs import small_batches
from tests.tools.object_stores import Bucket
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange
from transforms.recovery import Workplace
from transforms.storage.files import find_files, locate, write_file
from transforms.tally import Tally

TEXT = b"".join(b"line %06d\n\n" % number for number in range(200_000))


def _remove(path: str) -> None:
    folder, _, name = path.rpartition("/")
    locate(folder).delete([name])


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda path: write_file(path, TEXT + b"later\n"), ""),
        (lambda path: write_file(path, TEXT[:-9]), "it ends before 2,600,000 bytes"),
        (lambda path: write_file(path, b"x\n"), "it ends before 2,600,000 bytes"),
        (lambda path: write_file(path, TEXT.upper()), "it was written after its listing, with"),
        (_remove, "it is not there any more; it had 2,600,000 bytes"),
    ],
    ids=["grows", "shrinks", "shrinks to a line", "replaced", "removed"],
)
def test_an_object_is_read_as_it_was_listed(
    change: Callable[[str], None], cause: str, bucket: Bucket, tmp_path: Path
) -> None:
    path = f"{bucket.url}/text.txt"
    write_file(path, TEXT)
    [listed] = find_files(path)
    planned = PlannedRange(path, "text.txt", 0, 0, None, listed.bytes, listed.modified)
    options = DocumentOptions(document_rule="blank-lines")
    batches = TaskReader(options, Workplace(str(tmp_path)), Tally()).read([planned])
    with small_batches(2**16):
        next(batches)
        sleep(1.1)  # stores tell whole seconds
        change(path)
        if not cause:
            assert sum(batch.num_rows for batch in batches) > 0
            return
        with pytest.raises(UserError, match=cause) as error:
            list(batches)
    assert path in str(error.value)
