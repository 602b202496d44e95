"""What numba has no function for, in kernels: memory without owners, words of bytes, white space.

White space is that of Python's `str.isspace`, found in UTF-8 without decoding.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.kernel_keys import Compilable

Array = TypeVar("Array")
# Numba's types of the arguments, to the type of the result and a function that generates code from
# numba's context, builder, signature and the values.
Typing = Callable[..., tuple[Any, Callable[[Any, Any, Any, Any], Any]]]


class _Intrinsic(Compilable):
    """A function for which code is generated; numba is imported when a kernel that calls it is.

    Args:
        name: the name of the module's variable.
        plain: the same in Python.
        typing: what numba compiles.
    """

    def __init__(self, name: str, plain: Callable[..., Any], typing: Typing) -> None:
        self._name, self._plain, self.definition = name, plain, typing

    def __call__(self, *values: Any) -> Any:
        return self._plain(*values)

    def __reduce__(self) -> str:
        return self._name

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core.types import Function  # noqa: PLC0415
        from numba.core.typing.templates import infer, make_intrinsic_template  # noqa: PLC0415

        # As numba's decorator `intrinsic`, which numba would have to be imported for.
        return Function(infer(make_intrinsic_template(self, self.definition, self._name)))


def _type_borrow(_: Any, array: Any) -> tuple[Any, Callable[[Any, Any, Any, Any], Any]]:
    from numba.core.cgutils import copy_struct, get_null_value  # noqa: PLC0415
    from numba.np.arrayobj import make_array  # noqa: PLC0415

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        make = make_array(signature.return_type)
        lent = make(context, builder)
        copy_struct(lent, make(context, builder, values[0]))
        for owner in ("meminfo", "parent"):
            setattr(lent, owner, get_null_value(getattr(lent, owner).type))
        return lent._getvalue()

    return array(array), generate


def _type_load(_: Any, array: Any, place: Any) -> tuple[Any, Callable[[Any, Any, Any, Any], Any]]:
    from llvmlite.ir import IntType  # noqa: PLC0415
    from numba.core.types import uint64  # noqa: PLC0415
    from numba.np.arrayobj import make_array  # noqa: PLC0415

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, values[0]).data
        word = builder.bitcast(builder.gep(data, [values[1]]), IntType(64).as_pointer())
        return builder.load(word, align=1)

    return uint64(array, place), generate


def _type_zeros(_context: Any, _word: Any) -> tuple[Any, Callable[[Any, Any, Any, Any], Any]]:
    from llvmlite.ir import Constant, IntType  # noqa: PLC0415
    from numba.core.types import int64, uint64  # noqa: PLC0415

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], Constant(IntType(1), 0))

    return int64(uint64), generate


borrow = _Intrinsic("borrow", lambda array: array, _type_borrow)
"""Return the memory of an array without its owner, in a kernel.

Numba counts references to arrays, by atomic operations wherever an inlined kernel takes one as an
argument: a quarter of the time of a loop with little work. It counts none to an array that nobody
owns. The array must be an argument of the kernel, whose caller owns it, or stay in a variable, and
neither it nor a part of it may be returned.
"""

load_word = _Intrinsic(
    "load_word", lambda text, place: np.frombuffer(text, "<u8", 1, place)[0], _type_load
)
"""Return the 8 bytes of uint8[...] from a place on, the first one lowest, as uint64.

Written as eight loads, they are not always joined to one. The place is an integer of 64 bits and
not negative, and 8 bytes may be read there. (Numba has no processors with the highest byte first.)
"""

trailing_zeros = _Intrinsic(
    "trailing_zeros",
    lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64,
    _type_zeros,
)
"""Return how many of the lowest bits of a uint64 are 0, as int64; 64 of 0."""


@njit
def space_at(  # noqa: PLR0911  one return for each lead byte reads best
    data: npt.NDArray[np.uint8], position: int, end: int
) -> int:
    """Return the width of the white space (`str.isspace`) at a byte, in bytes; 0 for other text."""
    first = data[position]
    if first < 0xC2:
        return 1 if first == 0x20 or 0x09 <= first <= 0x0D or 0x1C <= first <= 0x1F else 0
    if first == 0xC2:  # U+0085, U+00A0
        return 2 if position + 1 < end and data[position + 1] in (0x85, 0xA0) else 0
    if first < 0xE1 or first > 0xE3 or position + 2 >= end:
        return 0
    second, third = data[position + 1], data[position + 2]
    if first == 0xE1:  # U+1680
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:  # U+3000
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x81:  # U+205F
        return 3 if third == 0x9F else 0
    # U+2000 to U+200A, U+2028, U+2029, U+202F
    listed = 0x80 <= third <= 0x8A or third in (0xA8, 0xA9, 0xAF)
    return 3 if second == 0x80 and listed else 0


@njit
def space_before(data: npt.NDArray[np.uint8], begin: int, end: int) -> int:
    """Return the width of the white space that ends before a byte, in bytes; 0 for other text."""
    widest = 1 if data[end - 1] < 0x80 else min(3, end - begin)
    # No first byte of these characters can continue another one, so looking back is exact.
    for width in range(1, widest + 1):
        if space_at(data, end - width, end) == width:
            return width
    return 0
