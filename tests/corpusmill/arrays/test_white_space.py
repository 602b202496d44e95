import numpy as np

from corpusmill.arrays.intrinsics import space_at, space_before


def test_white_space_is_that_of_python() -> None:
    # Python knows none beyond U+3000.
    for code in [*range(0xD800), *range(0xE000, 0x110000, 61)]:
        text = np.frombuffer(chr(code).encode(), np.uint8)
        width = len(text) if chr(code).isspace() else 0
        assert space_at(text, 0, len(text)) == width, hex(code)
        assert space_before(text, 0, len(text)) == width, hex(code)
