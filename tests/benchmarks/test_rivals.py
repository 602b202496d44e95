"""The rivals' environments, and what a table says of a rival that cannot be installed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rivals
from benchmarks.job import near_duplicates
from benchmarks.kernels import rival_encoders, tokenizer_training
from benchmarks.measure import Measurement
from benchmarks.readers import __main__ as readers
from tests.conftest import CHECKOUT

_SAMPLE = CHECKOUT / "samples" / "wiki.sample.tokens"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No rival can be installed."""

    def fail(*_: str) -> None:
        raise rivals.NotInstalledError("not installed")

    monkeypatch.setattr(rivals, "FOLDER", tmp_path / "rivals")
    monkeypatch.setattr(rivals, "_run_uv", fail)


def test_each_rival_is_pinned_and_has_a_reason() -> None:
    text = (CHECKOUT / "benchmarks" / "rivals.toml").read_text(encoding="utf-8")
    for name, rival in rivals.RIVALS.items():
        assert f"\n[{name}]  # " in text
        assert all(one.count("==") == 1 for one in rival["requirements"])
        assert rivals.label(name) == f"{rival['name']} {rival['requirements'][0].split('==')[1]}"


def test_an_environment_has_its_own_packages_above_those_of_the_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a package that shadows one of ours, and no network."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "rich.py").write_text("shadow = True\n")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "rival"\nversion = "1.0"\n'
        '[tool.hatch.build.targets.wheel]\nonly-include = ["rich.py"]\n'
    )
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(built, cwd=package, check=True, capture_output=True)
    [wheel] = map(str, tmp_path.glob("*.whl"))
    monkeypatch.setattr(rivals, "FOLDER", tmp_path / "rivals")
    monkeypatch.setattr(rivals, "label", lambda _: "rival 1.0")
    monkeypatch.setitem(rivals.RIVALS, "rival", {"name": "rival", "requirements": [wheel]})
    python = rivals.python_of("rival")
    code = "import numpy, rich; print(rich.shadow, numpy.__version__)"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", np.__version__]
    # It is made once, and anew if other packages are wanted.
    (python_file := Path(python)).with_name("kept").touch()
    assert rivals.python_of("rival") == python
    assert python_file.with_name("kept").exists()
    monkeypatch.setitem(rivals.RIVALS, "rival", {"name": "rival", "requirements": [wheel, wheel]})
    rivals.python_of("rival")
    assert not python_file.with_name("kept").exists()


def test_a_rival_that_cannot_be_installed_is_not_tried_with_what_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rivals, "FOLDER", tmp_path)
    wheel = str(tmp_path / "none-1.0-py3-none-any.whl")
    monkeypatch.setattr(rivals, "label", lambda _: "none 1.0")
    monkeypatch.setitem(rivals.RIVALS, "none", {"name": "none", "requirements": [wheel]})
    for _ in range(2):
        with pytest.raises(rivals.NotInstalledError, match="not installed"):
            rivals.python_of("none")


@pytest.mark.usefixtures("missing")
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = rival_encoders.list_rates("{}", [["a"]], [np.array([1])])
    assert cells == ["not installed"] * len(rival_encoders.RIVALS)
    run = readers.run_reader("LitData", tmp_path, tmp_path, 1, check=False)
    assert list(readers.cells("LitData", [run])) == [rivals.label("litdata"), "not installed"]
    monkeypatch.setattr(tokenizer_training, "WAYS", ("gigatoken", "rustbpe"))
    monkeypatch.setattr(tokenizer_training, "check_equal", lambda *_: None)
    tokenizer_training.compare("bpe", _SAMPLE, 1, 300, 1)
    lines = capsys.readouterr().out.splitlines()
    for name in ("gigatoken", "rustbpe"):
        assert any(
            line.startswith(f"| {rivals.label(name)}") and "not installed" in line for line in lines
        )


@pytest.mark.usefixtures("missing")
def test_near_duplicates_are_judged_without_the_rival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # 0, 1 and 2 are lost together, 6 rightly left out, 4 missed, and 7 like none at all.
    pairs = {1: [(0, 0.81)], 2: [(0, 0.9), (1, 0.83)], 4: [(3, 0.84)], 6: [(5, 0.99)]}
    assert near_duplicates.judge({0, 1, 2, 6, 7}, pairs) == ("0.2000", "0.5000", "1.0000")
    monkeypatch.setattr(near_duplicates, "find_ours", lambda *_: ({5}, 1.0))
    arguments = ("near_duplicates", "--documents", "30", "--folder", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [*arguments])
    monkeypatch.setattr(near_duplicates, "make_tokenizer", lambda *_: tmp_path)
    near_duplicates.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert lines[2].startswith("| corpusmill")
    assert lines[3].startswith(f"| {rivals.label('datatrove')}")
    assert "not installed" in lines[3]


def test_rivals_that_fail_are_named_and_ours_raise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an environment that lacks the rivals, as where one of their requirements is missing."""
    monkeypatch.setattr(rival_encoders, "python_of", lambda _: "/bin/false")
    cells = rival_encoders.list_rates("{}", [["a"]], [np.array([1])])
    assert cells == ["failed"] * len(rival_encoders.RIVALS)
    monkeypatch.setattr(tokenizer_training, "python_of", lambda _: "/bin/false")
    monkeypatch.setattr(tokenizer_training, "check_equal", lambda *_: None)
    monkeypatch.setattr(tokenizer_training, "WAYS", ("gigatoken",))
    tokenizer_training.compare("bpe", _SAMPLE, 1, 300, 1)
    assert re.search(r"\| +failed \|", capsys.readouterr().out)
    monkeypatch.setattr(tokenizer_training, "WAYS", ("no such way",))
    with pytest.raises(RuntimeError, match="no such way"):
        tokenizer_training.compare("bpe", _SAMPLE, 1, 300, 1)


def test_an_encoder_with_other_ids_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rival_encoders, "python_of", lambda _: sys.executable)
    told = ("0", "1", "2")
    taken = [f'{{"text": {{"first": 2.0, "again": 1.0, "others": {others}}}}}' for others in told]
    outputs = iter([*taken, '{"refused": "no\\nway"}'])

    def measure(*_: object, **__: object) -> object:
        return Measurement(1, 1, 1, 1, next(outputs))

    monkeypatch.setattr(rival_encoders, "measure", measure)
    cells = rival_encoders.list_rates("{}", [["a" * 8_000_000]], [np.array([1])])
    assert cells == ["4.0", "other ids", "other ids", "-"]
