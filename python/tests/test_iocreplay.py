"""The installed module on real logs, compared with what the program itself prints.

Needs the wheel in this Python; LOG names a log that a recorder wrote. Frames are tried where pyarrow, pandas and polars
are.
"""

import contextlib
import dataclasses
import datetime
import json
import math
import os
import pathlib
import subprocess
import sysconfig
import tempfile
import time
import unittest
import warnings

import iocreplay
from iocreplay import _frames, _program, _rows

LOG = pathlib.Path(os.environ["LOG"])


@contextlib.contextmanager
def inside(directory):
    """contextlib.chdir, which Python 3.9 does not have."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def printed(*arguments):
    """What the program prints, as objects."""
    done = subprocess.run([_program.find(), *arguments, "--utc", str(LOG)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Installed(unittest.TestCase):
    def test_the_program_is_the_wheels(self):
        self.assertEqual(_program.find(), os.path.join(sysconfig.get_path("scripts"), "iocreplay"))
        self.assertRegex(iocreplay.version(), r"^\d+\.\d+\.\d+$")

    def test_types_are_published(self):
        self.assertTrue((pathlib.Path(iocreplay.__file__).parent / "py.typed").exists())


class Rows(unittest.TestCase):
    def test_puts_are_those_that_the_program_prints(self):
        expected = printed("puts", "--format", "jsonl")
        puts = list(iocreplay.Log(LOG).puts())
        self.assertGreater(len(puts), 50)
        self.assertEqual(len(puts), len(expected))
        for put, line in zip(puts, expected):
            when = datetime.datetime.fromisoformat(line.pop("time")[:26]).replace(tzinfo=datetime.timezone.utc)
            self.assertEqual(put.time, when)
            known = dataclasses.asdict(put)
            self.assertEqual(known.pop("more"), {}, "a key that the module does not know")
            time_ns = known.pop("time_ns")
            self.assertEqual(time_ns // 1000, round(when.timestamp() * 1_000_000))
            self.assertEqual(known, line)

    def test_times_are_datetimes_as_well(self):
        puts = list(iocreplay.Log(LOG).puts())
        since, until = puts[10].time, puts[20].time
        self.assertLess(since, until)
        # a put's time is cut to microseconds
        cut = [put for put in puts if since <= put.time < until]
        self.assertEqual(list(iocreplay.Log(LOG).puts(since=since, until=until)), cut)
        without = iocreplay.Log(LOG).puts(since=since.replace(tzinfo=None), until=until.replace(tzinfo=None))
        self.assertEqual(list(without), cut, "without an offset it is UTC")
        there = datetime.timezone(datetime.timedelta(hours=-5))
        self.assertEqual(list(iocreplay.Log(LOG).puts(since=since.astimezone(there), until=until)), cut)

    def test_values_are_those_that_the_program_prints(self):
        pv = printed("puts", "--format", "jsonl")[0]["pv"]
        expected = printed("values", "--format", "jsonl", pv)
        values = list(iocreplay.Log(LOG).values(pv))
        self.assertGreater(len(values), 1)
        for value, line in zip(values, expected):
            line.pop("time")
            known = dataclasses.asdict(value)
            self.assertEqual((known.pop("more"), known.pop("time_ns") > 0), ({}, True))
            self.assertEqual(known, line)
        self.assertEqual(len(values), len(expected))

    def test_values_of_a_user_are_those_that_name_the_user(self):
        put = next(put for put in iocreplay.Log(LOG).puts() if put.user and put.pv)
        every = list(iocreplay.Log(LOG).values("*"))
        theirs = [value for value in iocreplay.Log(LOG).values("*", user=put.user) if value.pv is not None]
        self.assertTrue(theirs)
        self.assertEqual(theirs, [value for value in every if value.user == put.user])

    def test_chains_hold_every_span_once_with_its_parent(self):
        count = 0
        names = {}
        for line in printed("traces", "--format", "otlp"):
            for of_resource in line["resourceSpans"]:
                for span in of_resource["scopeSpans"][0]["spans"]:
                    count += 1
                    names[span["traceId"], span["spanId"]] = span
        found = 0
        for chain in iocreplay.Log(LOG).chains():
            tree = list(chain.tree())
            self.assertEqual(len(tree), len(chain.spans), "each span is in the tree once")
            self.assertEqual(tree[0], (0, chain.root))
            for _, span in tree:
                found += 1
                origin = names[chain.id, span.id]
                self.assertEqual(span.parent, origin.get("parentSpanId") or None)
                self.assertEqual(
                    (span.start_ns, span.end_ns),
                    tuple(int(origin[key]) for key in ("startTimeUnixNano", "endTimeUnixNano")),
                )
                self.assertTrue(span.parent is None or any(other.id == span.parent for other in chain.spans))
        self.assertEqual(found, count)
        self.assertGreater(count, 1000)

    def test_options_choose(self):
        log = iocreplay.Log(LOG)
        every = list(log.puts())
        pv = every[0].pv
        self.assertEqual([put for put in every if put.pv == pv], list(log.puts(pv=pv)))
        self.assertEqual([put for put in every if put.pv != pv], list(log.puts(exclude=[pv])))
        middle = every[len(every) // 2]
        since = middle.time.isoformat()
        self.assertEqual([put for put in every if put.time >= middle.time], list(log.puts(since=since)))
        self.assertGreater(len(list(log.puts(all=True))), len(every))

    def test_each_loop_reads_anew_and_may_be_left(self):
        rows = iocreplay.Log(LOG).chains()
        first = next(iter(rows))
        self.assertEqual(first, next(iter(rows)))
        begin = time.monotonic()
        reader = iter(rows)
        next(reader)
        reader.close()
        self.assertLess(time.monotonic() - begin, 20, "the program is not read to its end")

    def test_the_name_of_a_pv_is_no_path_and_no_option(self):
        with tempfile.TemporaryDirectory() as directory, inside(directory):
            pathlib.Path("NOSUCH").mkdir()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.assertEqual(list(iocreplay.Log(LOG).values("ALSO:NOT", "NOSUCH")), [])
            # taken for a log, it would be one that can't be read
            self.assertTrue(said and all(warning.category is iocreplay.LogWarning for warning in said))
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            self.assertEqual(list(iocreplay.Log(LOG).puts(pv="--help")), [])


class Errors(unittest.TestCase):
    def test_no_log(self):
        with self.assertRaisesRegex(iocreplay.Error, "nowhere"):
            list(iocreplay.Log("/nowhere").puts())
        with self.assertRaises(TypeError):
            iocreplay.Log()
        with self.assertRaises(TypeError):
            iocreplay.Log(LOG).values()

    def test_a_wrong_option_is_the_programs_line(self):
        with self.assertRaisesRegex(iocreplay.Error, "is not a time"):
            list(iocreplay.Log(LOG).puts(since="when it rained"))

    def test_nothing_found_is_said(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(list(iocreplay.Log(LOG).puts(pv="NO:SUCH:PV")), [])
        self.assertTrue(said and issubclass(said[0].category, iocreplay.LogWarning))

    def test_a_damaged_log_gives_its_rows_and_then_says_so(self):
        with tempfile.TemporaryDirectory() as directory:
            for segment in LOG.glob("*.iocrec"):
                content = bytearray(segment.read_bytes())
                content[len(content) // 2] ^= 0x55
                (pathlib.Path(directory) / segment.name).write_bytes(content)
            puts, complete = [], True
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    puts.extend(iocreplay.Log(directory).puts())
                except iocreplay.Incomplete:
                    complete = False
                    # a list that is being made is lost with the error: rows come one by one
                    with contextlib.suppress(iocreplay.Incomplete):
                        for put in iocreplay.Log(directory).puts():
                            puts.append(put)
            self.assertFalse(complete)
            self.assertGreater(len(puts), 0)


class Cells(unittest.TestCase):
    def test_times(self):
        for text, ns in [
            ("1970-01-01T00:00:00.000000000+00:00", 0),
            ("2026-11-22T10:52:22.332217957+00:00", 1795344742332217957),
            ("1969-12-31T23:59:59.999999999+00:00", -1),
            ("2026-11-22T11:52:22.332217957+01:00", 1795344742332217957),
        ]:
            self.assertEqual(_rows.nanoseconds(text), ns)
        self.assertEqual(_rows.moment(-1).microsecond, 999999)

    def test_values_go_into_the_columns_of_their_kind(self):
        def cells(value, state=None):
            return {name[2:]: cell for name, cell in _frames._value("x", value, state)}

        self.assertEqual(cells(None), {})
        self.assertEqual(cells(2.5), {"num": 2.5})
        self.assertEqual(cells(2**62 + 1), {"num": float(2**62), "int": 2**62 + 1})
        self.assertEqual(cells(2**64 - 1), {"num": float(2**64), "str": str(2**64 - 1)})
        self.assertEqual(cells(1, "On"), {"num": 1.0, "int": 1, "str": "On"})
        self.assertEqual(cells("text"), {"str": "text"})
        self.assertEqual(cells("Infinity"), {"num": math.inf, "str": "Infinity"})
        self.assertEqual(cells([]), {"array": [], "array_int": []})
        self.assertEqual(cells([1, 2.5]), {"array": [1.0, 2.5]})
        large = [2**64 - 1, 2**53 + 1]
        self.assertEqual(cells(large), {"array": [float(2**64), float(2**53)], "array_int": [-1, 2**53 + 1]})
        self.assertEqual(cells(["a", "NaN"]), {"array_str": ["a", "NaN"]})
        array = cells([1.0, "NaN"])["array"]
        self.assertTrue(array[0] == 1.0 and math.isnan(array[1]))


class Frames(unittest.TestCase):
    def setUp(self):
        try:
            import pandas  # noqa: F401
            import polars  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as error:
            if os.environ.get("FRAMES") == "must":
                raise
            self.skipTest(str(error))

    def test_frames_hold_the_rows(self):
        log = iocreplay.Log(LOG)
        puts = list(log.puts())
        table, pandas, polars = log.puts().to_arrow(), log.puts().to_pandas(), log.puts().to_polars()
        self.assertEqual([table.num_rows, len(pandas), polars.height], [len(puts)] * 3)
        self.assertEqual(table["time"].cast("int64").to_pylist(), [put.time_ns for put in puts])
        self.assertEqual([stamp.value for stamp in pandas["time"]], [put.time_ns for put in puts])
        self.assertEqual(polars["time_ns"].to_list(), [put.time_ns for put in puts])
        self.assertEqual(pandas["pv"].tolist(), [put.pv for put in puts])
        for row, put in zip(table.to_pylist(), puts):
            for name in ("requested", "old", "new"):
                value = getattr(put, name)
                if isinstance(value, (int, float)):
                    self.assertEqual(row[f"{name}_num"], float(value))
                    self.assertEqual(row[f"{name}_int"], value if isinstance(value, int) else None)
                elif isinstance(value, str):
                    self.assertEqual(row[f"{name}_str"], value)
                elif value is None:
                    self.assertIsNone(row[f"{name}_num"])

    def test_integers_stay_exact_where_some_are_unknown(self):
        columns = _frames.Columns({"new_int": _frames.INT}, lambda number: [{"new_int": number}])
        frame = iocreplay.Rows([], lambda _: iter([2**53 + 1, None]), columns).to_pandas()
        # as an integer: a float would be compared as one
        self.assertEqual((int(frame["new_int"][0]), frame["new_int"].isna().tolist()), (2**53 + 1, [False, True]))

    def test_a_frame_without_rows_has_its_columns(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = iocreplay.Log(LOG).puts(pv="NO:SUCH:PV").to_pandas()
        self.assertEqual((len(frame), "new_num" in frame.columns), (0, True))

    def test_chains_are_rows_of_spans(self):
        log = iocreplay.Log(LOG)
        chains = list(log.chains(since="-3s"))
        frame = log.chains(since="-3s").to_polars()
        self.assertEqual(frame.height, sum(len(chain.spans) for chain in chains))
        self.assertEqual(frame["chain"].n_unique(), len(chains))
        self.assertEqual(frame.filter(frame["depth"] == 0).height, len(chains))

    def test_columns_of_values(self):
        pv = next(iter(iocreplay.Log(LOG).puts())).pv
        values = list(iocreplay.Log(LOG).values(pv))
        frame = iocreplay.Log(LOG).values(pv).to_polars()
        self.assertEqual(frame["severity"].to_list(), [value.severity for value in values])
        self.assertEqual(frame["value_num"].to_list(), [value.value for value in values])


if __name__ == "__main__":
    unittest.main()
