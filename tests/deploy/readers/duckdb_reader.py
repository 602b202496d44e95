"""Print the columns of each Parquet file as a line of JSON."""

import json
import sys

import duckdb

for path in sys.argv[1:]:
    table = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [path])
    names, rows = [column[0] for column in table.description], table.fetchall()
    print(json.dumps(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))
