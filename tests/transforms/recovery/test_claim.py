import resource
from pathlib import Path
from threading import Thread

import pytest

from corpusmill.errors import UserError
from transforms.recovery import CLAIM, Claim, check_claim, drop_claim, read_claim, take_claim

MINE = Claim("mine", "/temp/mine", "host", 7, 1.5)
THEIRS = Claim("theirs", "/temp/theirs", "other", 8, 2.5)


def test_a_claim_is_read_as_it_was_taken(tmp_path: Path) -> None:
    output = str(tmp_path)
    assert read_claim(output) is None
    take_claim(output, MINE)
    assert read_claim(output) == MINE
    check_claim(output, "mine")
    drop_claim(output, "mine")
    assert list(tmp_path.iterdir()) == []


def test_the_claim_of_another_run_is_respected(tmp_path: Path) -> None:
    output = str(tmp_path)
    take_claim(output, THEIRS)
    with pytest.raises(UserError, match=r"another run \(process 8 on other\) writes"):
        take_claim(output, MINE)
    with pytest.raises(UserError, match="another run"):
        check_claim(output, "mine")
    drop_claim(output, "mine")
    assert read_claim(output) == THEIRS


def test_a_run_that_goes_on_takes_the_claim_over(tmp_path: Path) -> None:
    output = str(tmp_path)
    take_claim(output, THEIRS)
    take_claim(output, MINE, over="theirs")
    check_claim(output, "mine")
    with pytest.raises(UserError, match="another run"):
        check_claim(output, "theirs")


def test_a_claim_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another run writes"):
        check_claim(str(tmp_path), "mine")


def test_a_damaged_claim_is_respected_and_can_be_taken_over(tmp_path: Path) -> None:
    (tmp_path / CLAIM).write_text("")
    output = str(tmp_path)
    damaged = read_claim(output)
    assert damaged is not None
    assert damaged.is_damaged
    with pytest.raises(UserError, match="another run writes"):
        take_claim(output, MINE)
    take_claim(output, MINE, over=damaged.token)
    check_claim(output, "mine")


def test_a_file_system_without_hard_links_holds_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    take_claim(str(tmp_path), MINE)
    with pytest.raises(UserError, match="another run"):
        take_claim(str(tmp_path), THEIRS)
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM]


def test_of_many_that_ask_at_once_one_has_it(tmp_path: Path) -> None:
    won: list[int] = []

    def ask(number: int) -> None:
        try:
            take_claim(str(tmp_path), Claim(str(number), "", "", number, 0.0))
        except UserError:
            return
        won.append(number)

    threads = [Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = won
    check_claim(str(tmp_path), str(winner))


def test_a_claim_on_a_full_disk_is_not_there_at_all(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            take_claim(str(tmp_path), Claim("a" * 32, "", "host", 1, 1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
