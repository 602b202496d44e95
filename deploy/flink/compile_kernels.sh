#!/bin/sh
# Compile every kernel once, by a small build of each objective from the bundled sample.
set -e
text=samples/wiki.sample.tokens
work=$(mktemp -d)
python -m pipeline train-tokenizer --input $text --vocab-size 600 --output "$work/wordpiece.json"
python -m pipeline train-tokenizer --input $text --vocab-size 600 --model bpe \
  --special-tokens '<|endoftext|>' --output "$work/bpe.json"
for objective in bert electra ernie; do
  python -m pipeline $objective --input $text --tokenizer "$work/wordpiece.json" \
    --output "$work/$objective" --max-seq-length 64 --workers 1
done
python -m pipeline gpt --input $text --tokenizer "$work/bpe.json" --output "$work/gpt" --workers 1
rm -r "$work"
