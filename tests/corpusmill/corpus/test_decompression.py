import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from functools import cache, partial

import lz4.frame
import pytest
import zstandard

from corpusmill.corpus.decompression import (
    HEAD_BYTES,
    DamagedStreamError,
    is_compressed,
    is_decompressed,
    open_decompressed,
)
from tests.tools.knobs import knobs

TEXT = b"".join(b"%d the line number %d\n" % (n * n, n) for n in range(20_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": cache(lzma.compress),  # it takes a third of a second
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".lz4": partial(lz4.frame.compress, content_checksum=True),
}
ALL = pytest.mark.parametrize("suffix", COMPRESS)


def read_to_damage(data: bytes, suffix: str, size: int = 5000) -> tuple[bytes, DamagedStreamError]:
    """Return the text before the damage, and the damage."""
    text, stream = b"", open_decompressed(io.BytesIO(data), f"a{suffix}")
    try:
        while part := stream.read(size):
            text += part
    except DamagedStreamError as damage:
        with pytest.raises(DamagedStreamError):  # and it stays damaged
            stream.read(size)
        return text, damage
    pytest.fail("the damage was not noticed")


@ALL
@pytest.mark.parametrize("size", [-1, 1, 1000, 2**20])
def test_members_are_read_to_the_last(suffix: str, size: int) -> None:
    text = TEXT[:2000] if size == 1 else TEXT
    data = COMPRESS[suffix](text) + COMPRESS[suffix](b"") + COMPRESS[suffix](b"end")
    stream = open_decompressed(io.BytesIO(data), f"folder/a{suffix}")
    parts = [stream.read(size)]
    while parts[-1]:
        assert len(parts[-1]) <= size or size == -1
        parts.append(stream.read(size))
    assert b"".join(parts) == text + b"end"


@ALL
def test_reads_are_full_up_to_the_end(suffix: str) -> None:
    stream = open_decompressed(io.BytesIO(COMPRESS[suffix](TEXT)), f"a{suffix}")
    assert stream.read(100_000) == TEXT[:100_000]
    assert stream.read(0) == b""


@ALL
@pytest.mark.parametrize("cut", [1, 3, 500, 20_000])
def test_truncation_is_damage_after_the_text_before_it(suffix: str, cut: int) -> None:
    text, _ = read_to_damage(COMPRESS[suffix](TEXT)[:-cut], suffix)
    assert TEXT.startswith(text)
    # The blocks of bz2 and zst must be complete; the other formats decode every byte they have.
    if suffix in {".gz", ".xz"}:
        assert len(text) > 0.4 * len(TEXT)


@ALL
def test_truncation_in_a_later_member_keeps_the_earlier_ones(suffix: str) -> None:
    member = COMPRESS[suffix](TEXT)
    text, _ = read_to_damage(member + member[:20], suffix, size=100_000)
    assert len(text) > len(TEXT) - 4096
    assert TEXT.startswith(text[: len(TEXT)])


@ALL
def test_a_flipped_byte_is_damage(suffix: str) -> None:
    data = bytearray(COMPRESS[suffix](TEXT))
    data[len(data) // 2] ^= 0x55
    text, damage = read_to_damage(bytes(data), suffix)
    assert str(damage)
    # bz2 detects it by the checksum of a block of 900 kB, after it has decoded the block.
    if suffix != ".bz2":
        assert text[:1000] == TEXT[:1000]


@pytest.mark.parametrize(("suffix", "checksum"), [(".gz", -8), (".xz", -30)])
@pytest.mark.parametrize("step", [100, 1024, 4999, 5000])
def test_damage_costs_the_text_of_a_step(suffix: str, checksum: int, step: int) -> None:
    data = bytearray(COMPRESS[suffix](TEXT[:5000]))
    data[checksum] ^= 1
    with knobs(text_step=step):
        text, _ = read_to_damage(bytes(data), suffix)
    assert text == TEXT[: 4999 // step * step]


@pytest.mark.parametrize("step", [100, 1024, 2**12])
def test_damage_costs_a_block_of_zst_and_the_text_of_a_step(step: int) -> None:
    data = bytearray(COMPRESS[".zst"](TEXT))
    data[-4] ^= 1  # in the checksum; four blocks of 128 KiB are sound
    with knobs(arrow_step=step):
        text, _ = read_to_damage(bytes(data), ".zst")
    assert text == TEXT[: 2**19 // step * step]


class Counting(io.BytesIO):
    """A file that keeps how much is read of it at a time."""

    sizes: list[int]

    def read(self, size: int | None = -1, /) -> bytes:
        self.sizes.append(size or 0)
        return super().read(size)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("step", [1, 1000])
def test_compressed_files_are_read_in_steps(suffix: str, step: int) -> None:
    raw = Counting(COMPRESS[suffix](TEXT[:5000]))
    raw.sizes = []
    with knobs(compressed_step=step):
        assert open_decompressed(raw, f"a{suffix}").read() == TEXT[:5000]
    assert set(raw.sizes[1:]) == {step}  # after the bytes that tell the compression


@ALL
@pytest.mark.parametrize("data", [b"", b"\x1f", b"\0\1\2" * 300, b"\xe9t\xe9"])
def test_data_that_was_never_compressed_is_damage(suffix: str, data: bytes) -> None:
    assert read_to_damage(data, suffix)[0] == b""


@ALL
@pytest.mark.parametrize(
    "data", [b"plain text under a compressed file's name\n", b"PAR1\0\0", bytes(257) + b"ustar"]
)
def test_a_file_is_not_compressed_because_its_name_says_so(suffix: str, data: bytes) -> None:
    assert open_decompressed(io.BytesIO(data), f"a{suffix}").read() == data


@ALL
@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "a.zst"])
def test_a_file_is_decompressed_whatever_its_name_says(suffix: str, name: str) -> None:
    assert open_decompressed(io.BytesIO(COMPRESS[suffix](TEXT)), name).read() == TEXT


@ALL
def test_other_bytes_after_a_member_are_damage(suffix: str) -> None:
    text, _ = read_to_damage(COMPRESS[suffix](TEXT) + b"more, not compressed", suffix)
    assert len(text) > len(TEXT) - 4096


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_zeros_after_a_member_are_padding(suffix: str) -> None:
    data = COMPRESS[suffix](b"a") + bytes(40_000) + COMPRESS[suffix](b"b") + bytes(4)
    assert open_decompressed(io.BytesIO(data), f"a{suffix}").read() == b"ab"


class Failing(io.BytesIO):
    """A file on a disk that fails after some reads."""

    error: Exception

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 20_000:
            raise self.error
        return super().read(size)


@ALL
@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), EOFError("gone"), TimeoutError()]
)
def test_a_failing_disk_is_not_damage(suffix: str, error: Exception) -> None:
    raw = Failing(COMPRESS[suffix](TEXT))
    raw.error = error
    stream = open_decompressed(raw, f"a{suffix}")
    with pytest.raises(type(error)) as raised:
        stream.read()
    assert raised.value is error


@ALL
def test_closing_closes_the_file(suffix: str) -> None:
    raw = io.BytesIO(COMPRESS[suffix](TEXT))
    with open_decompressed(raw, f"a{suffix}") as stream:
        stream.read(10)
    assert raw.closed


@ALL
def test_a_bomb_is_read_in_bounded_steps(suffix: str) -> None:
    zeros = COMPRESS[suffix](bytes(10_000_000))
    stream, total = open_decompressed(io.BytesIO(zeros), f"a{suffix}"), 0
    while part := stream.read(2**20):
        assert len(part) <= 2**20
        total += len(part)
    assert total == 10_000_000


def test_suffixes() -> None:
    assert all(is_compressed(f"a.txt{suffix}") for suffix in COMPRESS)
    assert is_compressed("A.GZ")
    assert not is_compressed("gz")


@pytest.mark.parametrize(("size", "is_kept"), [(HEAD_BYTES - 1, False), (HEAD_BYTES, True)])
def test_a_plain_file_is_itself_or_its_bytes(size: int, is_kept: bool) -> None:
    raw = io.BytesIO(b"a" * size)
    stream = open_decompressed(raw, "wiki.train.tokens")
    assert (stream is raw) == is_kept
    assert not is_decompressed(stream)
    assert stream.read() == b"a" * size
