import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.tokenization.tokenizer_file import continues_of, ids_of, mark, marked_dtype


@given(
    tokens=st.lists(st.tuples(st.integers(0, 2**14 - 1), st.booleans()), max_size=9),
    dtype=st.sampled_from(["int16", "uint16", "int32"]),
)
def test_marks_can_be_removed(tokens: list[tuple[int, bool]], dtype: str) -> None:
    ids = np.array([token for token, _ in tokens], dtype)
    continues = np.array([continued for _, continued in tokens], np.bool_)
    marked = mark(ids, continues)
    assert marked.dtype == ids_of(marked).dtype == dtype
    assert marked.tolist() == [2 * token + continued for token, continued in tokens]
    assert ids_of(marked).tolist() == ids.tolist()
    assert continues_of(marked).tolist() == continues.tolist()


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [
        (1, "int16"),
        (2**14, "int16"),
        (2**14 + 1, "uint16"),
        (2**15, "uint16"),
        (2**15 + 1, "int32"),
    ],
)
def test_the_smallest_type_that_holds_all(vocab_size: int, dtype: str) -> None:
    assert marked_dtype(vocab_size) == dtype
    largest = mark(np.array([vocab_size - 1], dtype), np.array([True]))
    assert ids_of(largest).tolist() == [vocab_size - 1]


def test_vocabularies_beyond_31_bits_are_refused() -> None:
    assert marked_dtype(2**30) == "int32"
    with pytest.raises(OverflowError, match="31 bits"):
        marked_dtype(2**30 + 1)
