from tests.tools.remembered_beam import remembered_beam

__all__ = ["remembered_beam"]
