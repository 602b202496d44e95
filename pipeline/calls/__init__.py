"""The job as functions, which a Python program reaches as `corpusmill.build` and its sisters.

- `functions`: the functions.
- `given_input`: whether an input names files or holds the texts.
- `keywords`: keyword arguments to the options of a command, and how messages spell them.
"""
