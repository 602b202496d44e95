"""Arrays that a kernel uses without counting references to them."""

from functools import cached_property
from typing import Any, TypeVar

Array = TypeVar("Array")


class _Borrow:
    """What numba compiles for `borrow`; numba is imported when a kernel that calls it is."""

    def __call__(self, array: Array) -> Array:
        return array

    def __reduce__(self) -> str:
        return "borrow"

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core.cgutils import copy_struct, get_null_value  # noqa: PLC0415
        from numba.core.types import Function  # noqa: PLC0415
        from numba.core.typing.templates import infer, make_intrinsic_template  # noqa: PLC0415
        from numba.np.arrayobj import make_array  # noqa: PLC0415

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            make = make_array(signature.return_type)
            lent = make(context, builder)
            copy_struct(lent, make(context, builder, values[0]))
            for owner in ("meminfo", "parent"):
                setattr(lent, owner, get_null_value(getattr(lent, owner).type))
            return lent._getvalue()

        def borrow(_: Any, array: Any) -> Any:
            return array(array), generate

        # As numba's decorator `intrinsic`, which numba would have to be imported for.
        return Function(infer(make_intrinsic_template(self, borrow, "borrow")))


borrow = _Borrow()
"""Return the memory of an array without its owner, in a kernel.

Numba counts references to arrays, by atomic operations wherever an inlined kernel takes one as an
argument: a quarter of the time of a loop with little work. It counts none to an array that nobody
owns. The array must be an argument of the kernel, whose caller owns it, and neither it nor a part
of it may be returned.
"""
