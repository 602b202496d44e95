"""The two kinds of fault: a user's mistake, and a record that is bad."""


class UserError(Exception):
    """A mistake of the user's, found before any work is done.

    Shown as one message, never as a traceback.

    Args:
        value: what was given, as the user wrote it ("--output out").
        cause: what is wrong with it.
        cure: what to do instead.
    """

    def __init__(self, value: str, cause: str, cure: str) -> None:
        self.value, self.cause, self.cure = value, cause, cure
        super().__init__(value, cause, cure)

    def __str__(self) -> str:
        return f"{self.value}: {self.cause}. {self.cure}."


def check_option(flag: str, value: object, fine: bool, allowed: str) -> None:
    """Refuse the value of an option.

    Args:
        flag: the option's name on the command line, without its dashes ("max-seq-length").
        value: what was given.
        fine: whether it may be.
        allowed: what may ("5 to 65535").

    Raises:
        UserError: it may not.
    """
    if not fine:
        raise UserError(f"--{flag} {value}", "the value is out of range", f"Give {allowed}")
