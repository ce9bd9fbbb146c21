-- The same in ClickHouse and chdb; with s3(...) instead of file(...) from an object store.
CREATE VIEW puts AS SELECT * FROM file('/tables/puts/**/*.parquet', Parquet);
CREATE VIEW processing AS SELECT * FROM file('/tables/processing/**/*.parquet', Parquet);
CREATE VIEW alarms AS SELECT * FROM file('/tables/alarms/**/*.parquet', Parquet);
CREATE VIEW chains AS SELECT * FROM file('/tables/chains/**/*.parquet', Parquet);
CREATE VIEW iocs AS SELECT * FROM file('/tables/iocs/**/*.parquet', Parquet);
CREATE VIEW losses AS SELECT * FROM file('/tables/losses/**/*.parquet', Parquet);
