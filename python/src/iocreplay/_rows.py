"""The rows of answers. Their fields are the keys of docs/json.md; keys that a newer program adds are in `more`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar, Union

#: A value of a field. Numbers keep their kind; NaN and infinities are texts ("NaN", "Infinity", "-Infinity").
Scalar = Union[bool, int, float, str]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000_000
_R = TypeVar("_R", bound="_Row")


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 UTC of a time as the program writes it.

    >>> nanoseconds("1970-01-01T00:00:01.000000002+00:00")
    1000000002
    """
    whole = datetime.fromisoformat(text[:19] + text[29:])
    return ((whole - _EPOCH) // timedelta(seconds=1)) * _SECOND + int(text[20:29])


def moment(ns: int) -> datetime:
    """The time in UTC, cut to microseconds: Python's `datetime` has no nanoseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


@dataclass(frozen=True)
class _Row:
    #: Nanoseconds since 1970 UTC.
    time_ns: int
    #: The recorded machine.
    host: str | None
    #: The IOC's name; `NAME pid N` if another of that name ran beside it.
    ioc: str | None

    @property
    def time(self) -> datetime:
        """The time in UTC, cut to microseconds."""
        return moment(self.time_ns)

    @classmethod
    def _of(cls: type[_R], line: Mapping[str, Any]) -> _R:
        known = {member.name for member in dataclasses.fields(cls)} - {"time_ns", "more"}
        more = {key: line[key] for key in line if key not in known and key != "time"}
        values = {key: line.get(key) for key in known}
        make: Any = cls
        row: _R = make(time_ns=nanoseconds(line["time"]), more=more, **values)
        return row


@dataclass(frozen=True)
class Put(_Row):
    """A put: a client, a link or the IOC shell wrote to a field."""

    #: As the client named it.
    pv: str | None
    record: str | None
    field: str | None
    #: What the client claims.
    user: str | None
    client_host: str | None
    #: Addresses, `A:PORT` or `[A]:PORT`.
    client: str | None
    server: str | None
    #: `ca_write`, `ca_write_notify`, `ca_link`, `db_link`, `pva`, `pva_link`, `dbpf`, `python` or `unknown`.
    via: str
    dbr: str | None
    count: int | None
    #: The value asked for, and those before and after it; arrays are lists.
    requested: Scalar | list[Scalar] | None
    old: Scalar | list[Scalar] | None
    new: Scalar | list[Scalar] | None
    #: States of an enum.
    old_text: str | None
    new_text: str | None
    #: Whether that value is only the beginning of an array.
    requested_cut: bool
    old_cut: bool
    new_cut: bool
    #: Whether `new` is inferred.
    inexact: bool
    #: `ok`, the name of an ECA code, `denied`, `unknown`.
    status: str
    #: The server's text.
    message: str | None
    callback_ms: float | None
    thread: str | None
    #: `both`, `packet` or `probe`.
    source: str
    cause_record: str | None
    client_ioc: str | None
    protocol: str | None
    #: Of PVAccess: kind of request, fields, options, what came back, the members of a group.
    request: str | None
    fields: Any
    fields_cut: bool | None
    options: Any
    result: Any
    members: Any
    #: The process that made the put.
    process: Any
    #: Keys that this version of the module does not know.
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Value(_Row):
    """A value that a field had from this time on, or a time in which it was not watched (`unseen`)."""

    pv: str
    record: str
    field: str
    value: Scalar | list[Scalar] | None
    #: The state of an enum, or other text that belongs to the value.
    text: str | None
    severity: str | None
    status: str | None
    #: What shows the value: `snapshot`, a put, processing.
    source: str | None
    inexact: bool | None
    cut: bool | None
    #: What began it, in words.
    cause: str | None
    user: str | None
    client: str | None
    root: str | None
    units: str | None
    description: str | None
    precision: int | None
    #: The record's own time stamp, as text.
    stamp: str | None
    #: Of a gap: its kind, since when, and whether it goes on.
    unseen: str | None
    since: str | None
    lasts: bool | None
    #: Keys that this version of the module does not know.
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Span:
    """A put, a processing or a link of a chain."""

    #: Identifies it in its chain, and stays the same whenever the log is read.
    id: str
    #: The span that it follows from in its chain; None for the first.
    parent: str | None
    #: `process RECORD`, `caput PV` ...
    name: str
    start_ns: int
    end_ns: int
    #: Name of the IOC, or the address of a server that was not recorded.
    ioc: str | None
    host: str | None
    #: Whether it failed, or the record became INVALID.
    failed: bool
    #: As docs/otlp.md names them: `epics.record.name`, `epics.process.trigger` ...
    attributes: Mapping[str, Any]

    @property
    def start(self) -> datetime:
        """Its begin in UTC, cut to microseconds."""
        return moment(self.start_ns)

    @property
    def end(self) -> datetime:
        """Its end in UTC, cut to microseconds."""
        return moment(self.end_ns)

    @property
    def record(self) -> str | None:
        """The record that it is about."""
        name = self.attributes.get("epics.record.name")
        return name if isinstance(name, str) else None


@dataclass(frozen=True)
class Chain:
    """A put, scan or event, and all that it set off."""

    id: str
    #: The root first.
    spans: tuple[Span, ...]

    @property
    def root(self) -> Span:
        """What began it."""
        return self.spans[0]

    @property
    def time_ns(self) -> int:
        """When it began, nanoseconds since 1970 UTC."""
        return self.root.start_ns

    @property
    def time(self) -> datetime:
        """When it began, in UTC, cut to microseconds."""
        return self.root.start

    def children(self, span: Span) -> Iterator[Span]:
        """What this span set off itself."""
        return (child for child in self.spans if child.parent == span.id)

    def tree(self) -> Iterator[tuple[int, Span]]:
        """Each span with its depth, in the order in which a person reads it."""
        # a chain may be deep: no recursion
        below: dict[str | None, list[Span]] = {}
        known = {span.id for span in self.spans}
        for span in self.spans:
            below.setdefault(span.parent if span.parent in known else None, []).append(span)
        open_spans = [(0, span) for span in reversed(below.get(None, []))]
        while open_spans:
            depth, span = open_spans.pop()
            yield depth, span
            open_spans.extend((depth + 1, child) for child in reversed(below.get(span.id, [])))
