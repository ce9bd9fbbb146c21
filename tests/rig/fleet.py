#!/usr/bin/env python3
"""Asks a fleet's exported tables the questions of docs/fleet with real engines, and compares the answers.

Usage: fleet.py IOCREPLAY LOGS TABLES QUERIES [ENGINE...]
IOCREPLAY is the program, LOGS a directory of hosts, TABLES what it exported of them (Parquet), QUERIES docs/fleet.
Without engines all are asked: duckdb, clickhouse, spark.

The truth is computed here, from what iocreplay itself says of the logs (puts, alarms, iocs, info, spans), not from
tables.
Prints a line for each engine; says what differs, and exits with 1. Exits with 77 if an engine is not installed.
"""

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import datetime

SECOND = 1_000_000_000
MAJOR = {"NO_ALARM": 0, "MINOR": 1, "MAJOR": 2, "INVALID": 3}


def nanoseconds(text):
    """Of an ISO 8601 time with nanoseconds."""
    whole, rest = text.split(".")
    digits = rest.split("+")[0].rstrip("Z")
    moment = datetime.fromisoformat(whole + "+00:00")
    return int(moment.timestamp()) * SECOND + int(digits.ljust(9, "0"))


class Truth:
    """What iocreplay says of the logs."""

    def __init__(self, program, logs):
        def rows(*words):
            told = subprocess.run([program, *words, "--utc", logs], stdout=subprocess.PIPE, check=True, text=True)
            return [json.loads(line) for line in told.stdout.splitlines()]

        self.puts = rows("puts", "--format", "jsonl")
        for put in self.puts:
            put["time_ns"] = nanoseconds(put["time"])
        alarms = rows("alarms", "--all", "--format", "jsonl")
        self.alarms = [alarm for alarm in alarms if alarm["what"] == "change"]
        for alarm in self.alarms:
            alarm["time_ns"] = nanoseconds(alarm["time"])
        self.raised = [alarm for alarm in self.alarms if MAJOR.get(alarm["severity"], 0) > 0]
        self.iocs = rows("iocs", "--format", "jsonl")
        told = subprocess.run([program, "info", "--json", "--utc", logs], stdout=subprocess.PIPE, check=True, text=True)
        self.runs = json.loads(told.stdout)["runs"]
        self.spans(program, logs)

    def spans(self, program, logs):
        """Chains and processings, from the spans of OpenTelemetry."""
        self.chains = {}
        self.processings = []
        command = [program, "traces", "--format", "otlp", logs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as told:
            for line in told.stdout:
                for resource in json.loads(line)["resourceSpans"]:
                    of = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
                    for span in resource["scopeSpans"][0]["spans"]:
                        self.span(of, span)
        assert told.returncode == 0

    def span(self, resource, span):
        attributes = {a["key"]: a["value"] for a in span["attributes"]}
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        chain = self.chains.setdefault(span["traceId"], {"begin": begin, "end": end})
        chain["begin"], chain["end"] = min(chain["begin"], begin), max(chain["end"], end)
        if not span.get("parentSpanId"):
            chain["put"] = "epics.pv.name" in attributes
            chain["version"] = resource["epics.base.version"]["stringValue"]
        if span["name"].startswith("process "):
            record = attributes["epics.record.name"]["stringValue"]
            self.processings.append((resource["host.name"]["stringValue"], record, end - begin))

    def groups(self, rows, key):
        found = defaultdict(list)
        for row in rows:
            found[key(row)].append(row)
        return found

    def answers(self):
        """The rows of each question, by the number in its file's name."""
        puts, groups = self.puts, self.groups
        lost = [a["time_ns"] for a in self.alarms if a["record"] == "RING:BEAM" and a["severity"] == "MAJOR"]
        who = lambda put: (put["user"], put["client_host"])
        different = lambda rows, key: len({row[key] for row in rows if row[key] is not None})
        number = lambda value: float(value) if isinstance(value, (int, float)) else None
        yield (
            "01",
            [
                (at, put["time_ns"], put["pv"], *who(put), number(put["requested"]), put["status"])
                for at in lost
                for put in puts
                if put["pv"].startswith("CELL07:") and at - 10 * SECOND < put["time_ns"] <= at
            ],
        )
        yield (
            "02",
            [(*key, len(of), different(of, "pv"), different(of, "host")) for key, of in groups(puts, who).items()],
        )
        second = lambda a: (a["host"], a["time_ns"] // SECOND * SECOND, a["cause"])
        storms = ((*key, different(of, "record")) for key, of in groups(self.raised, second).items())
        yield "03", [storm for storm in storms if storm[-1] >= 5]
        lengths = defaultdict(list)
        for chain in self.chains.values():
            if chain["put"]:
                lengths[chain["version"]].append(chain["end"] - chain["begin"])
        yield "04", [(version, len(of), statistics.fmean(of), max(of)) for version, of in lengths.items()]
        yield (
            "05",
            [
                (run["host"], "lost", loss["source"], None, loss["count"], None)
                for run in self.runs
                for loss in run["losses"]
            ],
        )
        yield "06", self.fights()
        yield "07", self.deaths()
        refused = [put for put in puts if put["status"] not in ("ok", "unknown")]
        by = lambda put: (*who(put), put["status"])
        yield "08", [(*key, len(of), different(of, "pv")) for key, of in groups(refused, by).items()]
        record = lambda a: (a["host"], a["record"])
        lasted = lambda of: sum(round(a["lasted_s"] * SECOND) for a in of if a["lasted_s"] is not None)
        yield "09", [(*key, len(of), lasted(of)) for key, of in groups(self.raised, record).items()]
        hour = lambda put: put["time_ns"] // (3600 * SECOND) * (3600 * SECOND)
        yield "10", [(key, len(of), different(of, "user")) for key, of in groups(puts, hour).items()]
        kernel = {run["host"]: run["kernel"] for run in self.runs}
        versions = groups(self.iocs, lambda ioc: (ioc["base_version"], kernel[ioc["host"]]))
        yield (
            "11",
            [(*key, different(of, "host"), len(of), sum(i["records"] for i in of)) for key, of in versions.items()],
        )
        busy = groups(self.processings, lambda one: one[:2])
        yield "12", [(*key, len(of), sum(o[2] for o in of), max(o[2] for o in of)) for key, of in busy.items()]
        moved = [put for put in puts if number(put["old"]) is not None and number(put["new"]) is not None]
        yield (
            "13",
            [
                (put["host"], put["pv"], put["user"], put["time_ns"], number(put["old"]), number(put["new"]))
                for put in moved
            ],
        )

    def fights(self):
        def target(put):
            if put["record"] is None or put["field"] is None:
                return put["pv"]
            return put["record"] if put["field"] == "VAL" else f"{put['record']}.{put['field']}"

        found = []
        for (host, pv), puts in self.groups(self.puts, lambda put: (put["host"], target(put))).items():
            puts.sort(key=lambda put: put["time_ns"])
            pairs = [
                (before, after)
                for before, after in zip(puts, puts[1:])
                if before["user"] != after["user"] and after["time_ns"] - before["time_ns"] < 10 * SECOND
            ]
            if len(pairs) >= 10:
                found.append((host, pv, len(pairs), len({after["user"] for _, after in pairs})))
        return found

    def deaths(self):
        found = []
        for ioc in self.iocs:
            if ioc["ended"] is None:
                continue
            ended = nanoseconds(ioc["ended"]) if "." in ioc["ended"] else nanoseconds(ioc["ended"].replace("+", ".0+"))
            for put in self.puts:
                is_of = (put["host"], put["ioc"]) == (ioc["host"], ioc["ioc"])
                if is_of and ended - 60 * SECOND < put["time_ns"] <= ended + SECOND:
                    requested = float(put["requested"])
                    found.append((ioc["host"], ioc["ioc"], None, put["time_ns"], put["pv"], put["user"], requested))
        return found


def text_of(path):
    """The statements of a file, without its comments."""
    lines = path.read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def duckdb_engine(views):
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(views)
    return lambda sql: connection.execute(sql).fetchall()


def clickhouse_engine(views):
    from chdb import session

    place = tempfile.mkdtemp(prefix="chdb-")
    opened = session.Session(place)
    for statement in filter(str.strip, views.split(";")):
        opened.query(statement)

    def ask(sql):
        told = opened.query(sql, "JSONCompact").bytes()
        table = json.loads(told)
        kinds = [column["type"] for column in table["meta"]]

        def value(text, kind):
            if text is None or isinstance(text, (int, float)):
                return text
            return int(text) if "Int" in kind else text

        return [tuple(value(cell, kind) for cell, kind in zip(row, kinds)) for row in table["data"]]

    return ask


def spark_engine(views):
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for statement in filter(str.strip, views.split(";")):
        spark.sql(statement)
    return lambda sql: [tuple(row) for row in spark.sql(sql).collect()]


ENGINES = {"duckdb": duckdb_engine, "clickhouse": clickhouse_engine, "spark": spark_engine}


def same(one, other):
    if one is None or other is None:
        return one is None and other is None
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return (
        math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(one, float)
        else int(one) == int(other)
    )


def key(row):
    return tuple(
        (cell is None, str(cell) if isinstance(cell, str) else "", cell if isinstance(cell, (int, float)) else 0)
        for cell in row
    )


def compare(name, sql, rows, truth):
    """What differs, in words. Columns of which iocreplay says nothing else are None in the truth, and not compared."""
    if not truth:
        return f"{name}: the fleet has nothing that this question finds"
    unknown = {place for place in range(len(truth[0])) if all(row[place] is None for row in truth)}
    strip = lambda row: tuple(cell for place, cell in enumerate(row) if place not in unknown)
    rows, truth = sorted(map(strip, rows), key=key), sorted(map(strip, truth), key=key)
    limit = int(sql.rsplit("LIMIT", 1)[1]) if "LIMIT" in sql else None
    if limit is not None and len(truth) > limit:
        # of equals at the limit any may be there: each row must be true, and there must be as many
        missing = [row for row in rows if not any(all(map(same, row, other)) for other in truth)]
        return f"{name}: not true: {missing[:3]}" if missing or len(rows) != limit else None
    if len(rows) != len(truth):
        return f"{name}: {len(rows)} rows instead of {len(truth)}: {rows[:2]} ... instead of {truth[:2]} ..."
    for row, expected in zip(rows, truth):
        if len(row) != len(expected) or not all(map(same, row, expected)):
            return f"{name}: {row} instead of {expected}"
    return None


def main():
    program, logs, tables, queries, *engines = sys.argv[1:]
    queries = pathlib.Path(queries)
    questions = {path.name[:2]: path for path in sorted(queries.glob("[0-9][0-9]-*.sql"))}
    begun = time.monotonic()
    truth = dict(Truth(program, logs).answers())
    print(f"truth: {sum(map(len, truth.values()))} rows in {time.monotonic() - begun:.1f} s")
    wrong = [f"{number} has no truth, or no file" for number in questions.keys() ^ truth.keys()]
    for name in engines or ENGINES:
        begun = time.monotonic()
        try:
            ask = ENGINES[name](text_of(queries / f"tables-{name}.sql").replace("/tables", os.path.abspath(tables)))
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 77
        for number, path in questions.items():
            sql = text_of(path)
            try:
                problem = compare(f"{name} {path.name}", sql, ask(sql), truth[number])
            except Exception as error:  # whatever an engine raises is what is reported
                problem = f"{name} {path.name}: {error}"
            wrong += [problem] if problem else []
        print(f"{name}: {len(questions)} questions in {time.monotonic() - begun:.1f} s")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
