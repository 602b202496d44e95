"""Filters for corpusmill: the published rules by which web text is chosen for training.

Each filter is an instance of a frozen dataclass, whose fields are the numbers of its rules. A
filter with other numbers is an instance of one's own, in a module of one's own:

    from quality_rules import GopherQuality

    short_pages = GopherQuality(min_words=20)

and is named `--filter my_module:short_pages`. A number that is None switches its rule off.
`quality_rules.language` has the filters by language.
"""

from quality_rules.c4 import C4
from quality_rules.fineweb import FineWeb
from quality_rules.gopher import GopherQuality, GopherRepetition

__all__ = ["C4", "FineWeb", "GopherQuality", "GopherRepetition"]
