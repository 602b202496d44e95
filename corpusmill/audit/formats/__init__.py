"""Formats of token files, whoever writes them: a module for each."""
