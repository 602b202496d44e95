"""Numbers as bytes, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.provenance.byte_planes import from_bits, from_planes, to_bits, to_planes


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@given(data=st.data())
def test_numbers_come_back(dtype: type[np.unsignedinteger], data: st.DataObject) -> None:
    numbers = st.integers(0, int(np.iinfo(dtype).max)) | st.integers(0, 255)
    values = np.array(data.draw(st.lists(numbers)), dtype)
    read = from_planes(to_planes(values), values.dtype)
    assert read.dtype == dtype
    assert read.tolist() == values.tolist()


def test_bytes_that_are_zero_in_all_numbers_are_left_out() -> None:
    assert to_planes(np.array([7, 256, 258], np.uint64)) == bytes([2, 7, 0, 2, 0, 1, 1])
    assert to_planes(np.zeros(3, np.uint64)) == bytes([1, 0, 0, 0])


@given(st.lists(st.booleans()))
def test_flags_come_back(flags: list[bool]) -> None:
    data = to_bits(np.array(flags, np.bool_))
    assert len(data) == 1 + (len(flags) + 7) // 8
    assert from_bits(data).tolist() == flags
