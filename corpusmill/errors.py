"""The error that a user is shown for a mistake of their own."""


class UserError(Exception):
    """A user's mistake, found before any work is done.

    It is shown as one message, never as a traceback.

    Args:
        value: the value as the user wrote it ("--output out").
        cause: what is wrong with it.
        cure: what to do instead.
    """

    def __init__(self, value: str, cause: str, cure: str) -> None:
        self.value, self.cause, self.cure = value, cause, cure
        super().__init__(value, cause, cure)

    def __str__(self) -> str:
        return f"{self.value}: {self.cause}. {self.cure}."


def check_option(flag: str, value: object, is_valid: bool, allowed: str) -> None:
    """Refuse an option's value that is not valid.

    Args:
        flag: the option's name on the command line, without its dashes ("max-seq-length").
        value: the option's value.
        is_valid: whether the value is accepted.
        allowed: the accepted values, in words ("5 to 65535").

    Raises:
        UserError: the value is not valid.
    """
    if not is_valid:
        raise UserError(f"--{flag} {value}", "the value is out of range", f"Give {allowed}")
