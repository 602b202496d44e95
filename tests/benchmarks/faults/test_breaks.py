"""`benchmarks.faults.breaks`, which lets the tests look for thirty faults."""

from pathlib import Path

import pytest

from benchmarks.builds import CHECKOUT
from benchmarks.faults import breaks
from benchmarks.faults.breaks import Break, read_breaks


def test_each_fault_can_still_be_put_into_the_code() -> None:
    faults = read_breaks()
    assert len(faults) == 30
    for fault in faults:
        assert fault.change(CHECKOUT) != (CHECKOUT / fault.file).read_text()
        assert all((CHECKOUT / near).exists() for near in fault.near), fault.near


def test_a_text_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match=r"a\.py has this text 2 times, not once: x = 1"):
        Break("", "a.py", "x = 1", "x = 2", []).change(tmp_path)


def test_the_first_door_that_finds_a_fault_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaks, "DOORS", {"one": ["-k", "nothing"], "all": []})
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "test_a.py").write_text("import a\n\ndef test_x():\n    assert a.x == 1\n")
    fault = Break("", "a.py", "x = 1", "x = 2", ["test_a.py"])
    assert breaks.find_door(fault, tmp_path, ["one", "all"], False) == ("all", "test_a.py::test_x")
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
