"""Tables that installed packages extend."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corpusmill import plugins
from corpusmill.errors import UserError
from corpusmill.plugins import MissingPackageError, Plugins

GROUP = "corpusmill.tests.colours"


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, in which entry points are looked for anew."""
    monkeypatch.syspath_prepend(tmp_path)
    plugins.installed_entries.cache_clear()
    yield tmp_path
    plugins.installed_entries.cache_clear()


def install(folder: Path, package: str, *entries: str) -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *entries]) + "\n")


def red() -> str:
    return "#f00"


def table(takes_functions: bool = False) -> Plugins[Any]:
    def adapt(value: object) -> object | None:
        return value if callable(value) else None

    return Plugins(GROUP, "--colour", {"red": red}, adapt, "a function", takes_functions)


def test_entries_of_packages_stand_beside_our_own(packages: Path) -> None:
    install(packages, "paints", "blue = posixpath:join", "red = posixpath:split")
    colours = table()
    assert colours.names == ("red", "blue")
    assert "blue" in colours
    assert "green" not in colours
    assert colours["blue"].__name__ == "join"
    assert colours.package_of("blue") == "paints 1.0"
    # The names of our own cannot be taken.
    assert colours.package_of("red") is None
    assert colours["red"] is red


def test_what_cannot_be_used_is_refused(packages: Path) -> None:
    install(packages, "paints", "none = posixpath:sep", "gone = posixpath:gone", "lost = lost:a")
    colours = table()
    for name, message in {
        "none": "posixpath:sep of paints is not a function",
        "gone": "cannot be imported .AttributeError",
        "lost": "cannot be imported .ModuleNotFoundError",
        "grey": "no installed package provides it .*Choose one of red, gone, lost, none",
    }.items():
        with pytest.raises(UserError, match=f"--colour {name}: .*{message}"):
            colours[name]
    with pytest.raises(UserError, match="cannot be imported"):
        colours.values()


def test_a_name_of_two_packages_is_refused(packages: Path) -> None:
    install(packages, "paints", "blue = posixpath:join")
    install(packages, "inks", "blue = posixpath:split")
    with pytest.raises(UserError, match="--colour blue: several packages provide it: inks, paints"):
        table()["blue"]


def test_functions_need_no_entry_point() -> None:
    colours = table(takes_functions=True)
    assert colours["posixpath:join"].__name__ == "join"
    with pytest.raises(UserError, match=r"or give package\.module:function"):
        colours["blue"]
    with pytest.raises(UserError, match="no installed package provides it"):
        table()["posixpath:join"]


def test_the_package_of_a_function_is_found_among_all_that_are_installed() -> None:
    colours = table(takes_functions=True)
    assert colours.package_of("posixpath:join") is None
    assert str(colours.package_of("numpy:array")).startswith("numpy ")


def test_a_data_set_names_no_function_without_an_entry_point(packages: Path) -> None:
    install(packages, "paints", "blue = posixpath:join")
    colours = table(takes_functions=True)
    with pytest.raises(MissingPackageError, match="colour posixpath:join: this version"):
        colours.load_recorded("posixpath:join", None)
    assert colours.load_recorded("blue", "paints 1.0") is colours["posixpath:join"]


def test_a_data_set_names_the_package_that_is_missing() -> None:
    colours = table()
    cause = "colour blue: it is part of paints 1.0, .*pip install paints"
    with pytest.raises(MissingPackageError, match=cause):
        colours.load_recorded("blue", "paints 1.0")
    with pytest.raises(MissingPackageError, match="colour blue: this version of corpusmill"):
        colours.load_recorded("blue", None)
    assert colours.load_recorded("red", None)
