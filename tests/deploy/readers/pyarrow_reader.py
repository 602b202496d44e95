"""Print the columns of each Parquet file as a line of JSON."""

import json
import sys

import pyarrow.parquet as pq

for path in sys.argv[1:]:
    print(json.dumps(pq.read_table(path).to_pydict()))
