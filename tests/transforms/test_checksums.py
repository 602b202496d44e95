"""Checksums of parts, joined to those of files."""

import google_crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.storage.checksums import join_checksums

_PARTS = st.lists(st.binary(max_size=300), min_size=1, max_size=8)


@given(st.lists(_PARTS, min_size=1, max_size=4))
def test_the_checksum_of_a_file_follows_from_those_of_its_parts(files: list[list[bytes]]) -> None:
    parts = [part for file in files for part in file]
    joined = join_checksums(
        np.array([google_crc32c.value(part) for part in parts], np.uint32),
        np.array([len(part) for part in parts], np.int64),
        np.cumsum([0, *map(len, files[:-1])]),
    )
    assert joined.tolist() == [google_crc32c.value(b"".join(file)) for file in files]
