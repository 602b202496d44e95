"""Print the columns of each Parquet file as a line of JSON."""

import json
import sys

import polars as pl

for path in sys.argv[1:]:
    print(json.dumps(pl.read_parquet(path).to_dict(as_series=False)))
