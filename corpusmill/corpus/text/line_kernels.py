"""Compiled loops over the bytes of text: lines, their kinds and their text.

White space is what Python's `str.strip` strips, found in UTF-8 without decoding.
"""

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.intrinsics import space_at, space_before
from corpusmill.arrays.kernel_cache import njit

# Kinds of line. Separators come first and rejected lines last, so that one comparison finds them.
BLANK, TITLE, SENTENCE, INVALID_UTF_8, TOO_LONG = range(5)

_IS_ASCII_SPACE = np.array([chr(byte).isspace() and byte < 0x80 for byte in range(256)], np.uint8)

# How many bytes follow the first one of a character, -1 where none begins with it; and the lowest
# and highest byte that may come second (RFC 3629).
_FOLLOWING = np.array([0] * 0x80 + [-1] * 66 + [1] * 30 + [2] * 16 + [3] * 5 + [-1] * 11, np.int64)
_SECOND = np.full((256, 2), (0x80, 0xBF), np.uint8)
_SECOND[0xE0, 0], _SECOND[0xED, 1], _SECOND[0xF0, 0], _SECOND[0xF4, 1] = 0xA0, 0x9F, 0x90, 0x8F


@njit
def strip_line(data: npt.NDArray[np.uint8], begin: int, end: int) -> tuple[int, int]:
    """Return where a line's text begins and ends without the white space around it."""
    # Nearly every line begins and ends with ASCII other than white space, or with spaces around
    # that. Those are handled here, as the calls take four times as long as everything else.
    while begin < end and not 0x20 < data[begin] < 0x7F:
        width = 1 if data[begin] == 0x20 else space_at(data, begin, end)
        if width == 0:
            break
        begin += width
    while begin < end and not 0x20 < data[end - 1] < 0x7F:
        width = 1 if data[end - 1] == 0x20 else space_before(data, begin, end)
        if width == 0:
            break
        end -= width
    return begin, end


@njit
def find_newline(data: npt.NDArray[np.uint8], position: int, end: int) -> int:
    """Return the position of the first newline in data[at:end]; end if there is none."""
    # A loop without a break is compiled to vector instructions, which read 64 bytes together.
    while position + 64 <= end:
        has_newline = False
        for byte in data[position : position + 64]:
            has_newline |= byte == 10
        if has_newline:
            break
        position += 64
    while position < end and data[position] != 10:
        position += 1
    return position


@njit
def scan_lines(
    data: npt.NDArray[np.uint8], skip: int, max_line_bytes: int, titles: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    r"""Find the lines of a buffer; bytes after the last newline are a line, too.

    Args:
        data: uint8[bytes], beginning at the start of a line.
        skip: bytes of the first line that are not text (a byte order mark).
        max_line_bytes: a line with more bytes, newline not counted, is TOO_LONG.
        titles: whether a text that starts with "=" is a TITLE.

    Returns:
        starts: int64[n + 1], the start of each line, and the end of the last one.
        text: int64[3, n], the lines' ends (newline not counted), and the begins and ends of their
            stripped text.
        kinds: uint8[n].

    Example:
        "a\n\n = b = \n" gives starts [0, 2, 3, 11], text [[1, 2, 10], [0, 2, 4], [1, 2, 9]] and
        kinds [SENTENCE, BLANK, TITLE].
    """
    count = 0
    for position in range(data.size):
        count += data[position] == 10
    count += data.size > 0 and data[data.size - 1] != 10
    starts = np.empty(count + 1, np.int64)
    text = np.empty((3, count), np.int64)
    kinds = np.empty(count, np.uint8)
    start = 0
    for line in range(count):
        end = find_newline(data, start, data.size)
        starts[line], text[0, line] = start, end
        begin = start + skip if line == 0 else start
        if end - start > max_line_bytes:
            text[1, line], text[2, line], kinds[line] = begin, end, TOO_LONG
        else:
            begin, text_end = strip_line(data, begin, end)
            text[1, line], text[2, line] = begin, text_end
            kinds[line] = SENTENCE
            if begin == text_end:
                kinds[line] = BLANK
            elif titles and data[begin] == 0x3D:
                kinds[line] = TITLE
        start = min(end + 1, data.size)
    starts[count] = start
    return starts, text, kinds


@njit
def find_invalid_utf_8(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    r"""Find the pieces data[begins[i] : ends[i]] that are not UTF-8, as Python decides it.

    Returns:
        bool[n]. The pieces "a", "\xff", "\xc3\xa9" and "\xed\xa0\x80" (half of a surrogate pair)
        give [False, True, False, True].
    """
    invalid = np.zeros(begins.size, np.bool_)
    for piece in range(begins.size):
        position, end = begins[piece], ends[piece]
        while position < end and not invalid[piece]:
            first = data[position]
            following = _FOLLOWING[first]
            position += 1 + following
            # The second byte has a range of its own after some first bytes.
            low, high = _SECOND[first]
            invalid[piece] = following < 0 or position > end
            if following > 0 and not invalid[piece]:
                invalid[piece] = not low <= data[position - following] <= high
                for other in data[position - following + 1 : position]:
                    invalid[piece] |= other & 0xC0 != 0x80
    return invalid


@njit
def measure_breaks(
    data: npt.NDArray[np.uint8],
    bounds: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]:
    r"""Measure the line break at each line's end: 1 byte of "\n", 2 of "\r\n", 0 at a file's end.

    Args:
        data: uint8[bytes].
        bounds: int64[n + 1], the start of each line in data, and the end of the last one.
        lengths: int64[n], bytes of each line without its newline.
        kinds: uint8[n], kind of each line.

    Returns:
        int64[n], bytes of each line's line break; 0 for lines that are rejects.
    """
    breaks = np.zeros(kinds.size, np.int64)
    for line in range(kinds.size):
        end = bounds[line] + lengths[line]
        if kinds[line] < INVALID_UTF_8 and end < bounds[line + 1]:
            breaks[line] = 2 if lengths[line] and data[end - 1] == 0x0D else 1
    return breaks


@njit
def join_text(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Copy the pieces data[begins[i] : ends[i]] one after the other into a uint8 array."""
    joined = np.empty((ends - begins).sum(), np.uint8)
    position = 0
    for piece in range(begins.size):
        source = data[begins[piece] : ends[piece]]
        target = joined[position : position + source.size]
        # Compiled to vector instructions, which target[:] = source is not.
        for byte in range(source.size):
            target[byte] = source[byte]
        position += source.size
    return joined


@njit
def count_words(text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Count the characters and the words of some pieces of text.

    A word is a run of text between white space (`str.split`) within one piece.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: integers[pieces + 1] into text.

    Returns:
        The number of characters, and of words: "the sea" and "calm" give 11 and 3.
    """
    words = continuing = 0
    for position in range(offsets[0], offsets[-1]):
        continuing += (text[position] & 0xC0) == 0x80
    for piece in range(offsets.size - 1):
        position, end, after_space = offsets[piece], offsets[piece + 1], np.uint8(1)
        while position < end:
            width, space = 1, _IS_ASCII_SPACE[text[position]]
            if text[position] >= 0xC2:
                width = space_at(text, position, end)
                space, width = np.uint8(width > 0), max(1, width)
            words += after_space & (space ^ 1)  # a branch would be mispredicted at every word
            after_space = space
            position += width
    return offsets[-1] - offsets[0] - continuing, words
