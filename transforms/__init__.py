"""Beam transforms around the library's kernels: unpack, call, count, yield.

For pipelines of one's own:

- `documents`: the documents of files as a collection of Arrow batches, and tokenized.
- `testing`: what tests of pipelines need.
- `storage`: files here and in object stores.

The stages of the job, in their order. Their elements (`elements`) are small named tuples: documents
and examples are in files, to which the elements refer.

- `plan`: -> `Task`, some ranges of the input.
- `duplicates`, `overlaps`: the documents that a task leaves out.
- `prepare` (with `read` and `tokenize`): `Task` -> `Segment`, tokenized documents in a file by
  shard; also `Candidates` for the pool, `LinesFile`, counts and sketches.
- `pool`: `Candidates` -> the path of the file with random documents.
- `shuffle`: (shard, `Segment`) -> (shard, all of its segments).
- `build` (with `sort`): (shard, segments) -> `WrittenFile`.
- `commit`: `WrittenFile`, counts and rejects -> the data set.
- `measure`: `Task` -> the numbers of a corpus.
- `verify`: the number of a shard -> what is wrong with it.

Beside them: `spill` writes rows to files by bucket, `tally` counts, `checksums` seals files,
`recovery` resumes runs, `work_log` and `lineage` report.
"""
