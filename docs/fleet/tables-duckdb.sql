-- The tables of `iocreplay export --parquet /tables` in DuckDB. A table without any row has no files: leave it out.
CREATE VIEW puts AS SELECT * FROM read_parquet('/tables/puts/**/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW processing AS SELECT * FROM read_parquet('/tables/processing/**/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW alarms AS SELECT * FROM read_parquet('/tables/alarms/**/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW chains AS SELECT * FROM read_parquet('/tables/chains/**/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW iocs AS SELECT * FROM read_parquet('/tables/iocs/**/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW losses AS SELECT * FROM read_parquet('/tables/losses/**/*.parquet', hive_partitioning = true, union_by_name = true);
