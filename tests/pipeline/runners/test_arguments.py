from pipeline.runners.arguments import complete, given_flags, set_by_us


def test_flags_are_known_in_both_forms_and_the_last_counts() -> None:
    given = ["--parallelism=4", "--region", "us-east1", "--streaming", "--parallelism", "8"]
    assert given_flags(given) == {"parallelism": "8", "region": "us-east1", "streaming": ""}
    assert given_flags(["--a=b=c", "stray"]) == {"a": "b=c"}
    assert given_flags([]) == {}


def test_what_the_user_gives_wins_over_what_we_set() -> None:
    defaults = {"environment_type": "LOOPBACK", "parallelism": "2"}
    given = ["--parallelism", "9"]
    assert set_by_us(given, defaults) == ("--environment_type=LOOPBACK",)
    assert complete(given, defaults) == ("--environment_type=LOOPBACK", "--parallelism", "9")
