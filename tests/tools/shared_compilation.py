"""Kernels are compiled by one process of the tests, while the others wait, without a message.

Which test compiles them depends on the order of all tests, so that no command says it.
"""

import sys

from corpusmill.console import compilation


def keep_compilation_quiet() -> None:
    """Let no command of this process say that it, or one of its workers, compiles kernels."""
    says, modules = compilation.say_that_kernels_are_compiled, list(sys.modules.values())
    for module in modules:  # those that come later take it from the first one
        if vars(module).get(says.__name__) is says and module.__name__.startswith(_ROOMS):
            setattr(module, says.__name__, _say_nothing)


_ROOMS = ("corpusmill", "pipeline")


def _say_nothing() -> None:
    """Take the place of what says it."""
