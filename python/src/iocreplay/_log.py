"""A log, and what can be asked of it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from iocreplay import _frames, _otlp, _program
from iocreplay._rows import Chain, Put, Value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Row = TypeVar("Row")
Place = Union[str, "os.PathLike[str]"]
Globs = Union[str, Iterable[str]]
Time = Union[str, datetime.datetime]


class Rows(Generic[Row]):
    """Rows of an answer. Each time it is iterated over, the log is read anew, a row at a time."""

    def __init__(
        self,
        arguments: list[str],
        make: Callable[[Iterable[Mapping[str, Any]]], Iterator[Row]],
        columns: _frames.Columns[Row],
    ) -> None:
        self._arguments = arguments
        self._make = make
        self._columns = columns

    def __iter__(self) -> Iterator[Row]:
        return self._make(_program.lines(self._arguments))

    def to_arrow(self) -> pyarrow.Table:
        """A table of Arrow, with times to the nanosecond. Columns: python/README.md. Needs the package pyarrow."""
        return _frames.table(self, self._columns)

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of pandas, by way of Arrow. Needs the packages pyarrow and pandas."""
        import pandas
        import pyarrow

        # without it, a column of integers of which some are not known becomes one of floats, which are not exact
        frame = self.to_arrow().to_pandas(types_mapper={pyarrow.int64(): pandas.Int64Dtype()}.get)
        assert isinstance(frame, pandas.DataFrame)  # of a table, not of an array
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A data frame of polars, by way of Arrow. Needs the packages pyarrow and polars."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)  # of a table, not of an array
        return frame


class Log:
    """Logs that are read together: segments, directories of them, or directories of such directories, one a host."""

    def __init__(self, *paths: Place) -> None:
        if not paths:
            raise TypeError("Log() needs the path of a log")
        self._paths = [os.path.abspath(path) for path in paths]

    def __repr__(self) -> str:
        return f"Log({', '.join(map(repr, self._paths))})"

    def puts(
        self,
        *,
        pv: Globs = (),
        exclude: Globs = (),
        since: Time | None = None,
        until: Time | None = None,
        user: str | None = None,
        client: str | None = None,
        ioc: str | None = None,
        pod: str | None = None,
        host: str | None = None,
        all: bool = False,
    ) -> Rows[Put]:
        """The put log. Names are patterns with ``* ? [a-z]``; times are a `datetime`, or texts as the program takes
        them: ISO 8601, ``-10m``, ``10:03``, ``yesterday``; without an offset they are UTC. `all` adds puts of links
        inside the IOC."""
        options = _options(pv, exclude, since, until, user, client, ioc, pod, host) + ["--all"] * all
        make = _rows(Put._of)
        return Rows(["puts", "--format", "jsonl", *options, "--", *self._paths], make, _frames.PUTS)

    def values(
        self,
        *pv: str,
        since: Time | None = None,
        until: Time | None = None,
        user: str | None = None,
        client: str | None = None,
        ioc: str | None = None,
        pod: str | None = None,
        host: str | None = None,
    ) -> Rows[Value]:
        """Every value that these PVs had, or to which puts of a user or client led, and times that went unseen."""
        if not pv:
            raise TypeError("values() needs the name of a PV, or a pattern")
        options = _options((), (), since, until, user, client, ioc, pod, host)
        make = _rows(Value._of)
        arguments = ["values", "--format", "jsonl", *options, "--", *(_name(name) for name in pv), *self._paths]
        return Rows(arguments, make, _frames.VALUES)

    def chains(
        self,
        *,
        pv: Globs = (),
        exclude: Globs = (),
        since: Time | None = None,
        until: Time | None = None,
        user: str | None = None,
        client: str | None = None,
        ioc: str | None = None,
        pod: str | None = None,
        host: str | None = None,
    ) -> Rows[Chain]:
        """Chains of processing: what each put, scan or event set off. In a frame, each span is a row."""
        options = _options(pv, exclude, since, until, user, client, ioc, pod, host)
        arguments = ["traces", "--format", "otlp", *options, "--", *self._paths]
        return Rows(arguments, _otlp.chains, _frames.CHAINS)


def _rows(of: Callable[[Mapping[str, Any]], Row]) -> Callable[[Iterable[Mapping[str, Any]]], Iterator[Row]]:
    return lambda lines: (of(line) for line in lines)


def _name(text: str) -> str:
    """A name of a PV where the program takes names and logs. One with a slash could be taken for a log, and is none."""
    if not text or "\0" in text:
        raise ValueError(f"not the name of a PV: {text!r}")
    return text


def _time(time: Time | None) -> str | None:
    """A time as the program takes it."""
    return time.isoformat() if isinstance(time, datetime.datetime) else time


def _options(
    pv: Globs,
    exclude: Globs,
    since: Time | None,
    until: Time | None,
    user: str | None,
    client: str | None,
    ioc: str | None,
    pod: str | None,
    host: str | None,
) -> list[str]:
    """Options as arguments of the program. Times are in UTC, here and there."""
    options = ["--utc"]
    for option, globs in (("--pv", pv), ("--exclude", exclude)):
        for glob in (globs,) if isinstance(globs, str) else globs:
            options += [option, glob]
    given = {
        "--since": _time(since),
        "--until": _time(until),
        "--user": user,
        "--client": client,
        "--ioc": ioc,
        "--pod": pod,
        "--host": host,
    }
    for option, value in given.items():
        if value is not None:
            options += [option, value]
    return options
