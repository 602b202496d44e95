"""The process in which templates of strangers render, with limits of time and memory."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from corpusmill.corpus.batches import UnreadableError
from corpusmill.errors import in_one_line, printable

_MODULE = "corpusmill.objectives.chat_rendering"
_ENDS = {
    -signal.SIGXCPU: "it takes a thousand times the processor time of a conversation of its length",
    -signal.SIGKILL: "the process that renders it was killed, as for want of memory",
}


class RenderingProcess:
    """A process that renders records until one of them ends it, or nobody asks any more.

    Args:
        settings: what `corpusmill.objectives.chat_rendering.Renderer` is made of, in JSON.

    Attributes:
        error: why the templates cannot be used; None if they can.
    """

    def __init__(self, settings: str) -> None:
        # First this package, whatever has come before it on the path since it was imported.
        package = str(Path(__file__).parents[2])
        paths = [package, *(os.path.abspath(path) for path in sys.path)]  # noqa: PTH100
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.error = self._ask(settings).get("detail")

    @property
    def has_ended(self) -> bool:
        """Whether it has to be made anew."""
        return self._process.poll() is not None

    def render(self, record: Mapping[str, Any], others: tuple[str, ...]) -> str:
        """Return the text of a record, as `Renderer` does.

        Raises:
            UnreadableError: it is no conversation, or the template refuses it, takes too long or
                needs too much memory.
        """
        try:
            question = json.dumps([record, others], ensure_ascii=False)
        except (RecursionError, TypeError, ValueError) as error:
            raise UnreadableError("not-a-conversation", in_one_line(error)) from None
        answer = self._ask(question)
        if "text" not in answer:
            raise UnreadableError(answer["reason"], printable(answer["detail"]))
        return answer["text"]

    def _ask(self, question: str) -> dict[str, str]:
        """Return what the process answers, or how it ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018  they are pipes
        with self._lock:
            try:
                stdin.write(question.encode(errors="surrogatepass") + b"\n")
                stdin.flush()
                line = stdout.readline()
            except (BrokenPipeError, ValueError):  # it has ended, in another thread as well
                line = b""
        if line.endswith(b"\n"):
            answer: dict[str, str] = json.loads(line.decode(errors="surrogatepass"))
            return answer
        self._process.communicate()
        status = self._process.returncode
        end = _ENDS.get(status, f"the process that renders it ended with status {status}")
        return {"reason": "template-refuses", "detail": end}

    def __del__(self) -> None:
        if process := getattr(self, "_process", None):
            process.communicate()


@lru_cache(maxsize=2)
def _start(settings: str, _: int) -> RenderingProcess:
    return RenderingProcess(settings)


def rendering_process(settings: str) -> RenderingProcess:
    """Return the process of some settings, which is started anew where it has ended."""
    process = _start(settings, os.getpid())  # forks share no pipes
    if process.has_ended:
        _start.cache_clear()
        process = _start(settings, os.getpid())
    return process
