"""Objects of a store that change while they are read."""

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


def test_an_object_is_read_as_it_was_listed(bucket: Bucket, tmp_path: Path) -> None:
    path, options = f"{bucket.url}/text.txt", DocumentOptions(document_rule="blank-lines")
    changes: tuple[tuple[bytes | None, str], ...] = (
        (TEXT + b"later\n", ""),
        (TEXT[:-9], "it ends before 2,600,000 bytes"),
        (b"x\n", "it ends before 2,600,000 bytes"),
        (TEXT.upper(), "it was written after its listing, with"),
        (None, "it is not there any more; it had 2,600,000 bytes"),
    )
    for content, cause in changes:
        write_file(path, TEXT)
        [listed] = find_files(path)
        planned = PlannedRange(path, "text.txt", 0, 0, None, listed.bytes, listed.modified)
        batches = TaskReader(options, Workplace(str(tmp_path)), Tally()).read([planned])
        with small_batches(2**16):
            next(batches)
            if "after its listing" in cause:
                sleep(1.1)  # stores tell whole seconds
            if content is None:
                locate(bucket.url).delete(["text.txt"])
            else:
                write_file(path, content)
            if cause:
                with pytest.raises(UserError, match=f"{path}: .*{cause}"):
                    list(batches)
            else:
                assert sum(batch.num_rows for batch in batches) > 0
