"""What numba has no function for, in kernels."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from corpusmill.arrays.kernel_cache import njit

Array = TypeVar("Array")
# Numba's types of the arguments, to the type of the result and a function that generates code from
# numba's context, builder, signature and the values.
Typing = Callable[..., tuple[Any, Callable[[Any, Any, Any, Any], Any]]]


class _Intrinsic:
    """A function for which code is generated; numba is imported when a kernel that calls it is.

    Args:
        name: the name of the module's variable.
        plain: the same in Python.
        typing: what numba compiles.
    """

    def __init__(self, name: str, plain: Callable[..., Any], typing: Typing) -> None:
        self._name, self._plain, self._typing = name, plain, typing

    def __call__(self, *values: Any) -> Any:
        return self._plain(*values)

    def __reduce__(self) -> str:
        return self._name

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core.types import Function  # noqa: PLC0415
        from numba.core.typing.templates import infer, make_intrinsic_template  # noqa: PLC0415

        # As numba's decorator `intrinsic`, which numba would have to be imported for.
        return Function(infer(make_intrinsic_template(self, self._typing, self._name)))


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


def _load_word(text: np.ndarray, place: int) -> Any:
    return np.frombuffer(text[place : place + 8].tobytes(), "<u8")[0]


borrow = _Intrinsic("borrow", lambda array: array, _type_borrow)
"""Return the memory of an array without its owner, in a kernel.

Numba counts references to arrays, by atomic operations wherever an inlined kernel takes one as an
argument: a quarter of the time of a loop with little work. It counts none to an array that nobody
owns. The array must be an argument of the kernel, whose caller owns it, or stay in a variable, and
neither it nor a part of it may be returned.
"""

load_word = _Intrinsic("load_word", _load_word, _type_load)
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


@njit(inline="always")
def copy_ids(source: np.ndarray, first: int, last: int, ids: np.ndarray, written: int) -> int:
    """Copy a part of an array to another one, and return where the copy ends."""
    for place in range(last - first):  # a slice would take longer
        ids[written + place] = source[first + place]
    return written + last - first
