"""How the elements that pass between stages are encoded: by their schemas, and never pickled."""

from typing import Any

from apache_beam import coders

from transforms.elements import LinesFile, ReadRange, Segment, Task, WrittenFile

# Several collections by name, as `with_outputs` returns them. Beam checks the type of a single
# collection only, and warns about every other hint.
NamedOutputs = Any

for _element in (Task, LinesFile, Segment, WrittenFile, ReadRange):
    coders.registry.register_coder(_element, coders.RowCoder)
