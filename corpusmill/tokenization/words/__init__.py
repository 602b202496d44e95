"""Which tokens belong to one word.

- `words`: rules of words, by name: text -> spans of words.
- `phrases`: Chinese phrases of many texts at once.
- `jieba_cutter`, `jieba_words`: one such text, cut as jieba does.
- `marked_encoding`: texts -> token ids, marked by a rule; the rule that follows the pieces of
  a vocabulary.
"""
