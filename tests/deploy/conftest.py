from pathlib import Path

import pytest

from tests.tools.wheels import build_wheels


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library's wheel and the job's."""
    return build_wheels(tmp_path_factory.mktemp("wheels"))
