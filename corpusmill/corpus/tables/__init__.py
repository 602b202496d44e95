"""Documents from tables: Parquet, Arrow and Avro."""
