from hypothesis import given
from hypothesis import strategies as st

from transforms.elements import FileRange
from transforms.plan import cut_ranges


@given(size=st.integers(0, 10_000), range_bytes=st.integers(1, 3000))
def test_ranges_of_a_file_follow_each_other_and_cover_it(size: int, range_bytes: int) -> None:
    ranges = list(cut_ranges([("f", "f", size, True)], range_bytes))
    assert [part.start for part in ranges] == [0, *(part.end for part in ranges[:-1])]
    assert ranges[-1].end == size
    lengths = [part.end - part.start for part in ranges]
    assert max(lengths) <= range_bytes
    assert max(lengths) - min(lengths) <= 1


def test_compressed_files_are_whole_and_every_range_has_its_number() -> None:
    assert list(
        cut_ranges([("/a", "a", 10, True), ("/b.gz", "b.gz", 99, False), ("/c", "c", 3, True)], 5)
    ) == [
        FileRange(0, "/a", "a", 0, 0, 5),
        FileRange(1, "/a", "a", 0, 5, 10),
        FileRange(2, "/b.gz", "b.gz", 1, 0, -1),
        FileRange(3, "/c", "c", 2, 0, 3),
    ]
