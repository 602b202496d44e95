"""One small model, one loss curve, whatever happens to the processes: `python -m ...elastic_proof`.

`__main__` says what is proven. `model` trains to the same bits in any division, `reading` has the
three ways to read, `ranks` is one process of a training, `training` starts and kills them, and
`comparison` says what differs. `data_sets` builds the data of the bundled sample.
"""
