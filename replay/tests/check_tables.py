"""Compares tables with each other, cell by cell, and with what iocreplay's other commands say.

check_tables.py DIR: DIR has `parquet`, `ndjson` and `csv`, and as JSON lines `puts`, `values`, `alarms`, `clients`,
`iocs`, `health` and `traces` (OTLP), of the same log. DuckDB reads Parquet, and Python's own modules the others.
"""

import collections
import csv
import json
import math
import pathlib
import sys
from datetime import datetime

import duckdb

SEVERITIES = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"]
TABLES = "puts processing values alarms chains circuits iocs losses health".split()


def nanoseconds(text):
    """Nanoseconds since 1970 of an ISO 8601 time with nanoseconds."""
    if text is None:
        return None
    whole, rest = text[:19], text[19:].removeprefix(".")
    digits = "".join(c for c in rest[:9] if c.isdigit())
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 10**9 + int(digits.ljust(9, "0") or 0)


def from_parquet(path):
    """The rows of a file, with times as nanoseconds."""
    kinds = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{path}', hive_partitioning=false)").fetchall()
    columns = [
        f'epoch_ns("{name}") AS "{name}"' if kind.startswith("TIMESTAMP") else f'"{name}"' for name, kind, *_ in kinds
    ]
    sql = f"SELECT {', '.join(columns)} FROM read_parquet('{path}', hive_partitioning=false)"
    rows = [dict(zip([name for name, *_ in kinds], row)) for row in duckdb.sql(sql).fetchall()]
    return rows, {name: kind for name, kind, *_ in kinds}


def check_statistics(path, rows):
    """What a file says of its columns of texts: nulls, and the least and the greatest text, by its bytes."""
    stats = duckdb.sql(f"""SELECT path_in_schema, list(stats_min_value), list(stats_max_value), sum(stats_null_count)
        FROM parquet_metadata('{path}') WHERE type = 'BYTE_ARRAY' AND NOT path_in_schema LIKE '%, list, %'
        GROUP BY path_in_schema""").fetchall()
    for column, least, greatest, nulls in stats:
        texts = sorted((row[column] for row in rows if row[column] is not None), key=str.encode)
        assert nulls == len(rows) - len(texts), (path, column, nulls)
        # a text of more than 64 bytes is not told
        least, greatest = ([told for told in of if told is not None] for of in (least, greatest))
        if texts and len(texts[0].encode()) <= 64:
            assert min(least, key=str.encode) == texts[0], (path, column, least, texts[0])
        if texts and len(texts[-1].encode()) <= 64:
            assert max(greatest, key=str.encode) == texts[-1], (path, column, greatest, texts[-1])


def finite(cell):
    """What JSON and CSV have instead of NaN and infinities."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return [finite(element) for element in cell] if isinstance(cell, list) else cell


def of_csv(cell, like):
    """A cell of CSV, as the type of the same cell of NDJSON."""
    if like is None:
        return None if cell == "" else cell
    if isinstance(like, bool):
        return {"true": True, "false": False}[cell]
    if isinstance(like, int):
        return int(cell)
    if isinstance(like, float):
        return float(cell)
    return json.loads(cell) if isinstance(like, list) else cell


def same_text(shown, text):
    """Whether CSV shows a text: unsafe characters are escaped there."""
    return shown == text or (isinstance(text, str) and not text.isprintable() and shown.isprintable())


def compare(root, table):
    """The rows of a table, if the three formats have the same."""
    files = {}
    for kind in ["parquet", "ndjson", "csv"]:
        base = root / kind / table
        files[kind] = sorted(path.relative_to(base).with_suffix("") for path in base.rglob(f"*.{kind}"))
    assert files["parquet"] == files["ndjson"] == files["csv"], (table, files)
    rows = []
    for name in files["parquet"]:
        path = {kind: root / kind / table / f"{name}.{kind}" for kind in files}
        columnar, kinds = from_parquet(path["parquet"])
        check_statistics(path["parquet"], columnar)
        lines = [json.loads(line) for line in path["ndjson"].read_text().split("\n") if line]
        text = path["csv"].read_text()
        cells = list(csv.DictReader(text.splitlines()))
        assert len(columnar) == len(lines) == len(cells) == text.count("\n") - 1 > 0, (table, name)
        for parquet, line, cell in zip(columnar, lines, cells):
            assert list(parquet) == list(line) == list(cell), table
            day = f"date={line['time'][:10]}"
            assert day in name.parts, (name, line["time"])
            for column, value in line.items():
                is_time = kinds[column].startswith("TIMESTAMP")
                wanted = nanoseconds(value) if is_time else value
                seen = finite(parquet[column])
                # DuckDB may keep microseconds of a time with a zone
                assert seen == wanted or is_time and seen // 1000 == wanted // 1000, (table, column, seen, wanted)
                assert type(seen) is type(wanted), (table, column, seen, wanted)
                assert same_text(of_csv(cell[column], value), value), (table, column, cell[column], value)
            assert nanoseconds(line["time"]) == line["time_ns"] == parquet["time_ns"]
        rows += columnar
    return rows


def value(row, name):
    """The value of a set of columns, as JSON lines have it."""

    def number(of):
        if isinstance(of, float) and not math.isfinite(of):
            return "NaN" if math.isnan(of) else "Infinity" if of > 0 else "-Infinity"
        return of

    cell = {part: row[f"{name}_{part}"] for part in "num int str array array_int array_str count cut".split()}
    for list_ in ["array_str", "array_int", "array"]:
        if cell[list_] is not None:
            return [number(of) for of in cell[list_]]
    if cell["int"] is not None:
        return cell["int"]
    if cell["num"] is not None:
        digits = cell["str"] or ""
        return int(digits) if digits.isdigit() else number(cell["num"])
    return cell["str"]


def state(row, name):
    """The text of a value that is a number."""
    return row[f"{name}_str"] if row[f"{name}_int"] is not None else None


def lines(root, name):
    """The JSON lines of another command."""
    return [json.loads(line) for line in (root / name).read_text().split("\n") if line]


def same(what, seen, wanted):
    """Compares rows in any order."""
    count = lambda rows: collections.Counter(json.dumps(row, sort_keys=True) for row in rows)
    seen, wanted = count(seen), count(wanted)
    assert seen == wanted, (what, "only in the table", (seen - wanted), "only in the command", (wanted - seen))
    print(f"{what}: {sum(seen.values())} rows")


def plain(number):
    """A number that is the same as an integer and as a double."""
    if isinstance(number, list):
        return [plain(of) for of in number]
    return float(number) if isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**53 else number


def micro(length, unit=1):
    """Microseconds of a length, which is in nanoseconds unless `unit` says how many of them it is."""
    return None if length is None else round(length * unit / 1000)


def check(root):
    """Compares everything."""
    tables = {table: compare(root, table) for table in TABLES}
    own = "host ioc pv record field user client_host client server via dbr count status callback_ms thread".split()
    own += "source inexact cause_record client_ioc protocol request message".split()
    values = ["requested", "old", "new"]
    same(
        "puts",
        [
            [row["time_ns"]]
            + [row[key] for key in own]
            + [plain(value(row, key)) for key in values]
            + [row[f"{key}_cut"] for key in values]
            + [state(row, key) for key in values[1:]]
            for row in tables["puts"]
        ],
        [
            [nanoseconds(row["time"])]
            + [row[key] for key in own]
            + [plain(row[key]) for key in values]
            + [row[f"{key}_cut"] for key in values]
            + [row[f"{key}_text"] if isinstance(row[key], int) else None for key in values[1:]]
            for row in lines(root, "puts")
        ],
    )
    own = "host ioc pv record field severity status source inexact units".split()
    same(
        "values",
        [
            [row["time_ns"], plain(value(row, "value")), state(row, "value"), row["value_cut"]]
            + [row[key] for key in own]
            for row in tables["values"]
        ],
        [
            [nanoseconds(row["time"]), plain(row["value"]), row["text"] if isinstance(row["value"], int) else None]
            + [row["cut"] if row["value"] is not None else None]
            + [row[key] for key in own]
            for row in lines(root, "values")
            if row["source"] != "gap"
        ],
    )
    own = "host ioc record what from_severity from_status severity status cause by user client_host client".split()
    own += "through source until gap unprocessed".split()
    same(
        "alarms",
        [
            [row["time_ns"], plain(value(row, "value")), micro(row["lasted_ns"])] + [row[key] for key in own]
            for row in tables["alarms"]
        ],
        [
            [nanoseconds(row["time"]), plain(row["value"]), micro(row["lasted_s"], 10**9)] + [row[key] for key in own]
            for row in lines(root, "alarms")
            if row["what"] != "still"
        ],
    )
    for row in tables["alarms"] + tables["values"]:
        assert row["severity_num"] is None or SEVERITIES[row["severity_num"]] == row["severity"]
    spans = []
    for batch in lines(root, "traces"):
        for resource in batch["resourceSpans"]:
            spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
    chains = {span["traceId"] for span in spans}
    assert {row["chain"] for row in tables["chains"]} == chains
    assert sum(row["spans"] for row in tables["chains"]) == len(spans)
    same(
        "processing",
        [[row["chain"], row["time_ns"], row["record"]] for row in tables["processing"]],
        [
            [span["traceId"], int(span["startTimeUnixNano"]), span["name"].removeprefix("process ")]
            for span in spans
            if span["name"].startswith("process ")
        ],
    )
    for table in ["puts", "values"]:
        assert {row["chain"] for row in tables[table]} - {None} <= chains, table
    own = "host ioc client server user client_host client_ioc program minor_version origin state channels puts".split()
    own += "denied failed unknown protocol end_reason ended_by".split()
    same(
        "circuits",
        [[row["first_seen_ns"]] + [row[key] for key in own] for row in tables["circuits"]],
        [[nanoseconds(row["first_seen"])] + [row[key] for key in own] for row in lines(root, "clients")],
    )
    own = "host ioc pid end user base_version linkage exe cwd command ca_ports pva_ports records not_probed".split()
    same("iocs", *([[row[key] for key in own] for row in rows] for rows in [tables["iocs"], lines(root, "iocs")]))
    own = "host ioc pid resident_bytes minor_faults major_faults threads descriptors udp_drops clients channels".split()
    same(
        "health",
        [[row["time_ns"], row["since_ns"]] + [row[key] for key in own] for row in tables["health"]],
        [
            [nanoseconds(row["time"]), nanoseconds(row["since"])] + [row[key] for key in own]
            for row in lines(root, "health")
        ],
    )
    print(f"losses: {len(tables['losses'])} rows")


check(pathlib.Path(sys.argv[1]))
