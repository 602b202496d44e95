"""The states of readers in files of torch.save."""

from typing import Any

import torch

from corpusmill.errors import UserError


def load_state(path: str) -> Any:
    """Load a file, which may come from anywhere, without running code that is in it.

    Raises:
        UserError: torch does not load it.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        cause = f"it is neither JSON nor a file that torch loads safely ({type(error).__name__})"
        raise UserError(path, cause, "Save what state_dict() returns by itself") from None
