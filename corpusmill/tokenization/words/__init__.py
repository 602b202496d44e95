"""Which tokens belong to one word.

- `words`: rules of words, by name: text -> spans of words; Chinese phrases of many texts at once.
- `jieba_words`: one text, cut as jieba does.
- `marked_encoding`: texts -> token ids, marked by a rule; the rule that follows the pieces of
  a vocabulary.
"""
