"""The job as functions, which a Python program reaches as `corpusmill.build` and its sisters.

- `functions`: the functions.
- `given_input`: whether an input names files or holds the texts.
- `keywords`: keyword arguments to the options of a command.
- `messages`: the messages of the command line with keywords in place of flags.
"""
