"""Rows as tables of Arrow, with the columns that `iocreplay export` gives the same facts (docs/tables.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from iocreplay._rows import Chain, Put, Value

if TYPE_CHECKING:
    import pyarrow

Row = TypeVar("Row")

# Rows that are converted at a time: an answer may be longer than memory holds as objects.
BATCH = 10_000
# The kinds of columns, and what each is for Arrow.
TIME, INT, FLOAT, BOOL, TEXT = "time", "int", "float", "bool", "text"
NUMBERS, INTS, TEXTS = "numbers", "ints", "texts"


class Columns(Generic[Row]):
    """The columns of a table, in order: name and kind; and what makes the cells of a row."""

    def __init__(self, kinds: Mapping[str, str], cells: Callable[[Row], Iterable[Mapping[str, Any]]]) -> None:
        self.kinds = kinds
        self.cells = cells


def table(rows: Iterable[Row], columns: Columns[Row]) -> pyarrow.Table:
    """All rows as a table. Its columns are there even if there is no row."""
    import pyarrow

    types = {
        TIME: pyarrow.timestamp("ns", tz="UTC"),
        INT: pyarrow.int64(),
        FLOAT: pyarrow.float64(),
        BOOL: pyarrow.bool_(),
        TEXT: pyarrow.string(),
        NUMBERS: pyarrow.list_(pyarrow.float64()),
        INTS: pyarrow.list_(pyarrow.int64()),
        TEXTS: pyarrow.list_(pyarrow.string()),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.kinds.items()])
    batches: list[pyarrow.RecordBatch] = []
    waiting: list[Mapping[str, Any]] = []

    def convert() -> None:
        made = [pyarrow.array([row.get(name) for row in waiting], types[kind]) for name, kind in columns.kinds.items()]
        batches.append(pyarrow.record_batch(made, schema=schema))
        waiting.clear()

    for row in rows:
        waiting.extend(columns.cells(row))
        if len(waiting) >= BATCH:
            convert()
    convert()
    return pyarrow.Table.from_batches(batches, schema)


def _split(name: str) -> dict[str, str]:
    """The columns of a value, which may be a number, a text or an array of either."""
    return {
        f"{name}_num": FLOAT,
        f"{name}_int": INT,
        f"{name}_str": TEXT,
        f"{name}_array": NUMBERS,
        f"{name}_array_int": INTS,
        f"{name}_array_str": TEXTS,
    }


# What the program writes for numbers that JSON does not have.
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def _number(value: Any) -> Any:
    return float(value) if not isinstance(value, str) else _NOT_FINITE[value]


def _signed(number: int) -> int:
    """A 64-bit integer with the same bits that has a sign."""
    return number if number <= _HIGHEST else number - 2**64


def _value(name: str, value: Any, state: str | None = None) -> Iterator[tuple[str, Any]]:
    """The cells of a value, with the state that belongs to the number of an enum."""
    if isinstance(value, list):
        numeric = [element for element in value if not isinstance(element, str)]
        if all(not isinstance(element, str) or element in _NOT_FINITE for element in value) and (numeric or not value):
            yield f"{name}_array", [_number(element) for element in value]
            if all(isinstance(element, int) for element in value):
                yield f"{name}_array_int", [_signed(element) for element in value]
        else:
            yield f"{name}_array_str", [str(element) for element in value]
    elif isinstance(value, str):
        if value in _NOT_FINITE:
            yield f"{name}_num", _NOT_FINITE[value]
        yield f"{name}_str", value
    elif value is not None:
        yield f"{name}_num", float(value)
        if isinstance(value, int) and _LOWEST <= value <= _HIGHEST:
            yield f"{name}_int", int(value)
        elif isinstance(value, int):
            yield f"{name}_str", str(value)
    if state is not None:
        yield f"{name}_str", state


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _put(put: Put) -> Iterator[Mapping[str, Any]]:
    cells = {name: getattr(put, name, None) for name in PUTS.kinds}
    cells["time"] = put.time_ns
    cells.update(_value("requested", put.requested))
    cells.update(_value("old", put.old, put.old_text))
    cells.update(_value("new", put.new, put.new_text))
    for name in ("fields", "options", "result", "members", "process"):
        cells[name] = _json(getattr(put, name))
    yield cells


def _of_value(value: Value) -> Iterator[Mapping[str, Any]]:
    cells = {name: getattr(value, name, None) for name in VALUES.kinds}
    cells["time"] = value.time_ns
    cells.update(_value("value", value.value, value.text))
    yield cells


def _chain(chain: Chain) -> Iterator[Mapping[str, Any]]:
    for depth, span in chain.tree():
        attributes = span.attributes
        cells = {
            "time": span.start_ns,
            "time_ns": span.start_ns,
            "end_ns": span.end_ns,
            "host": span.host,
            "ioc": span.ioc,
            "chain": chain.id,
            "span": span.id,
            "parent": span.parent,
            "depth": depth,
            "name": span.name,
            "record": span.record,
            "trigger": attributes.get("epics.process.trigger"),
            "severity": attributes.get("epics.record.severity"),
            "failed": span.failed,
            "attributes": _json(dict(attributes)),
        }
        cells.update(_value("value", attributes.get("epics.record.value"), attributes.get("epics.record.value_text")))
        yield cells


_COMMON = {"time": TIME, "time_ns": INT, "host": TEXT, "ioc": TEXT}

PUTS: Columns[Put] = Columns(
    {
        **_COMMON,
        **dict.fromkeys(("pv", "record", "field", "user", "client_host", "client", "server", "via", "dbr"), TEXT),
        "count": INT,
        **_split("requested"),
        **_split("old"),
        **_split("new"),
        **dict.fromkeys(("requested_cut", "old_cut", "new_cut", "inexact"), BOOL),
        **dict.fromkeys(("status", "message"), TEXT),
        "callback_ms": FLOAT,
        **dict.fromkeys(("thread", "source", "cause_record", "client_ioc", "protocol", "request"), TEXT),
        **dict.fromkeys(("fields", "options", "result", "members", "process"), TEXT),
    },
    _put,
)

VALUES: Columns[Value] = Columns(
    {
        **_COMMON,
        **dict.fromkeys(("pv", "record", "field"), TEXT),
        **_split("value"),
        **dict.fromkeys(("severity", "status", "source"), TEXT),
        **dict.fromkeys(("inexact", "cut"), BOOL),
        **dict.fromkeys(("cause", "user", "client", "units", "description", "stamp", "unseen", "since"), TEXT),
        "precision": INT,
        "lasts": BOOL,
    },
    _of_value,
)

CHAINS: Columns[Chain] = Columns(
    {
        **_COMMON,
        "end_ns": INT,
        **dict.fromkeys(("chain", "span", "parent"), TEXT),
        "depth": INT,
        **dict.fromkeys(("name", "record", "trigger"), TEXT),
        **_split("value"),
        "severity": TEXT,
        "failed": BOOL,
        "attributes": TEXT,
    },
    _chain,
)
