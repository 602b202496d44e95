"""Options: declared once, in dataclasses, and given on a command line, in a file, or in Python.

- `options`: the options of a dataclass one by one, with their types, defaults and texts.
- `words`: what the words of a command line give.
- `files`: what a file of YAML or TOML gives.
- `filling`: the value of an option from an object, and from values by name to the dataclass.
"""
