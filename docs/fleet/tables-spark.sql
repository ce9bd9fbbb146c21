-- The same in Spark SQL. Spark has no nanoseconds: `time` comes as a number, and time_ns is exact in any case. Names in double
-- quotes are those of standard SQL.
SET spark.sql.legacy.parquet.nanosAsLong=true;
SET spark.sql.ansi.enabled=true;
SET spark.sql.ansi.doubleQuotedIdentifiers=true;
CREATE TEMPORARY VIEW puts USING parquet OPTIONS (path '/tables/puts', mergeSchema 'true');
CREATE TEMPORARY VIEW processing USING parquet OPTIONS (path '/tables/processing', mergeSchema 'true');
CREATE TEMPORARY VIEW alarms USING parquet OPTIONS (path '/tables/alarms', mergeSchema 'true');
CREATE TEMPORARY VIEW chains USING parquet OPTIONS (path '/tables/chains', mergeSchema 'true');
CREATE TEMPORARY VIEW iocs USING parquet OPTIONS (path '/tables/iocs', mergeSchema 'true');
CREATE TEMPORARY VIEW losses USING parquet OPTIONS (path '/tables/losses', mergeSchema 'true');
