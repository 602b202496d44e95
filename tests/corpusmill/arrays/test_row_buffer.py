import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.ragged import RowBuffer

SCHEMA = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("ids", pa.list_(pa.field("element", pa.int16(), nullable=False)), nullable=False),
        pa.field("label", pa.int8(), nullable=False),
    ]
)
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**64 - 1), st.lists(st.integers(-5, 500), max_size=5), st.integers(0, 1)
    ),
    max_size=8,
)


def to_batch(rows: list[tuple[int, list[int], int]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


# A key has eight bytes, and the memory that is reserved none, one, two or three of them.
@given(st.lists(_ROWS, max_size=5), st.integers(0, 3), st.sampled_from([1, 8, 16, 17, 24, 2**28]))
def test_rows_are_those_that_were_added(
    parts: list,  # type: ignore[type-arg]
    skipped: int,
    reserved_bytes: int,
) -> None:
    buffer = RowBuffer(SCHEMA, reserved_bytes)
    buffer.add(to_batch([(1, [2, 3], 1)]))
    buffer.clear()
    batches = [to_batch(rows).slice(skipped) for rows in parts]
    for batch in batches:
        buffer.add(batch)
    buffer.rows().validate(full=True)
    expected = pa.Table.from_batches(batches, SCHEMA)
    assert pa.Table.from_batches([buffer.rows()]).equals(expected)


def test_memory_grows_once_and_is_used_again() -> None:
    buffer = RowBuffer(SCHEMA, 2**28)
    batch = to_batch([(7, list(range(500)), 1)] * 400)
    buffer.add(batch)
    place = buffer.rows().column("ids").values.buffers()[1].address
    buffer.clear()
    assert buffer.rows().num_rows == 0
    buffer.add(batch)
    assert buffer.rows().column("ids").values.buffers()[1].address == place
    assert buffer.rows().equals(batch)
    assert buffer.nbytes == 400 * (8 + 500 * 2 + 4 + 1) + 4


def test_nulls_are_refused() -> None:
    schema = pa.schema([("key", pa.uint64())])
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.uint64())], schema=schema)
    with pytest.raises(ValueError, match="batch must not have nulls"):
        RowBuffer(schema, 2**28).add(batch)


def test_values_are_copied() -> None:
    buffer = RowBuffer(pa.schema([("key", pa.uint64())]), 2**28)
    values = np.arange(3, dtype=np.uint64)
    buffer.add(pa.RecordBatch.from_arrays([pa.array(values)], schema=buffer.schema))
    values[:] = 9
    assert buffer.rows().column(0).to_pylist() == [0, 1, 2]


WITHOUT_PANDAS = """
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named '{name}'")
sys.meta_path.insert(0, Hidden())
import pyarrow as pa
from corpusmill.arrays.ragged import RowBuffer
schema = pa.schema([("ids", pa.list_(pa.int16())), ("key", pa.uint64()), ("kept", pa.bool_())])
RowBuffer(schema, 2**28)
"""


def test_pandas_is_not_needed() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)


@pytest.mark.parametrize("rows", [2**19 - 1, 2**19, 2**19 + 1])
def test_a_column_grows_beyond_its_first_half_megabyte(rows: int) -> None:
    buffer = RowBuffer(pa.schema([("label", pa.int8())]), 2**28)
    values = np.arange(rows, dtype=np.int8)
    for part in (values[:-1], values[-1:], values[:1]):
        buffer.add(pa.record_batch([pa.array(part)], names=["label"]))
    expected = np.append(values, values[0])
    np.testing.assert_array_equal(buffer.rows().column("label").to_numpy(), expected)
