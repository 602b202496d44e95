"""What a trainer reads a data set with: examples by number, orders, batches, collators.

NumPy alone; `corpusmill.reading.torch_data` and its neighbours are where PyTorch is, and need the
extra "torch".
"""
