"""How much is done of what takes longer, which is shown on a terminal alone."""

import pytest

from corpusmill.commands.tracing import follow


def test_items_are_counted_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_terminal in (False, True):
        with monkeypatch.context() as patch:
            patch.setenv("FORCE_COLOR" if is_terminal else "NO_COLOR", "1")
            patch.setenv("TTY_COMPATIBLE", "1" if is_terminal else "0")
            assert list(follow(iter("abc"), 3, "letters read")) == ["a", "b", "c"]
        output = capsys.readouterr()
        assert output.out == ""
        assert ("letters read" in output.err and "3/3" in output.err) == is_terminal
        assert is_terminal or output.err == ""
