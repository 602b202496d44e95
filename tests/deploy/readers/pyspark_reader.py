"""Print the columns of each Parquet file as a line of JSON."""

import json
import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.getOrCreate()
for path in sys.argv[1:]:
    frame = session.read.parquet(path)
    rows = frame.collect()
    # An integer of 64 bits without a sign is a decimal number.
    print(json.dumps({name: [row[name] for row in rows] for name in frame.columns}, default=int))
