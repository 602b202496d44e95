"""Print the columns of each Parquet file as a line of JSON."""

import json
import sys

import fastparquet

for path in sys.argv[1:]:
    frame = fastparquet.ParquetFile(path).to_pandas()
    # Elements of lists are numbers of NumPy.
    print(json.dumps({name: frame[name].tolist() for name in frame}, default=lambda n: n.tolist()))
