"""Which tokens belong to one word.

- `words`: rules of words, by name: text -> spans of words.
- `phrases`: Chinese phrases of many texts at once.
- `pieces`: the rule that follows the pieces of a vocabulary.
- `word_marks`: token ids marked by whether they continue a word.
- `marked_encoding`: texts -> token ids, marked by a rule.
"""
