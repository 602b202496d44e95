"""Integers of variable size, as the headers of Avro and Parquet have them."""

from io import BytesIO


def read_long(stream: BytesIO, zigzag: bool = True) -> int:
    """Read a number: seven bits a byte, the lowest first, with zigzag the sign in the lowest bit.

    Raises:
        EOFError: the number has no end.
    """
    number = shift = 0
    while True:
        byte = stream.read(1)
        if not byte or shift > 63:
            raise EOFError("a number has no end")
        number |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return number >> 1 ^ -(number & 1) if zigzag else number


def write_long(number: int) -> bytes:
    """Encode a number that is not negative, with zigzag.

    Example:
        63 gives the byte 126, 64 the bytes 128 and 1.
    """
    number <<= 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
