"""The scripts by which shells complete a command line."""

import subprocess
from pathlib import Path

import pytest

from corpusmill.console.process import USER_ERROR
from tests.tools.jobs import run_here

_ASK = """
source {script}
COMP_WORDS=(corpusmill {words}) COMP_CWORD={place}
$(complete -p corpusmill | sed 's/.*-F \\([^ ]*\\).*/\\1/')
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ver", "verify"),
        ("bert --max-se", "--max-seq-length"),
        ("gpt --max-se", "--max-seq-length"),
        ("bert --order cor", "corpus"),
        ("train-tokenizer --vocab", "--vocab-size"),
    ],
)
def test_bash_completes_commands_options_and_values(
    words: str, expected: str, tmp_path: Path
) -> None:
    script = tmp_path / "completion"
    script.write_text(run_here("--print-completion", "bash").output)
    asked = _ASK.format(script=script, words=words, place=len(words.split()))
    completed = subprocess.check_output(["bash", "-c", asked], text=True)
    assert completed.split() == [expected]


def test_there_is_a_script_for_zsh() -> None:
    assert "#compdef corpusmill" in run_here("--print-completion", "zsh").output


@pytest.mark.parametrize("shell", [(), ("fish",), ("bash", "zsh")])
def test_another_shell_is_refused(shell: tuple[str, ...]) -> None:
    refused = ("--print-completion", *shell, "Give bash or zsh")
    run_here("--print-completion", *shell, status=USER_ERROR, refused=refused)
