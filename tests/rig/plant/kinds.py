#!/usr/bin/env python3
"""Another plant: one IOC with records of every type of EPICS Base, driven by puts that a seed chooses.

    IOCREC=path/to/iocrec kinds.py DIRECTORY [SEED] [OPTION of iocrec record...]

Leaves the same as record.py: the log and truth.json, to which "seed" is added. What a record is set to, how often, by
whom and after how long comes from SEED (default 1). Takes a quarter of a minute. Needs root.
"""

import math
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import private_net
from processes import Ioc, Recorder
from record import CHAR, DOUBLE, ENUM, LONG, SHORT, STRING, Observer, Plant, parse

PORT = 5094
WORDS = (
    "", "a", "closed for maintenance", "50 % & more", 'it\'s "odd"', "tab\there", "ümläut", "x" * 39, "line\nfeed",
    "$(reboot)", "${HOME}", "`reboot`", "-n", "--", "\\", "\\0", "\\x41", "@array@ { }", "<END>", "a;b", "a,b", "# a",
    "%d", "[1;2]", "a~b", "null", "---", " b", "é" * 19, "x" * 38, "1", "nan", "\x1b[2J",
)  # fmt: skip
# Longer than a DBR_STRING.
TEXTS = (
    "",
    "short",
    "a text that is longer than the forty characters of a DBR_STRING",
    "é" * 60,
    "a,b;c|d\\e",
    "$(reboot) `reboot` %d \\n 'it' \"is\"",
    "-" * 150,
    '@array@ { "1" }',
    "\\" * 90,
    "two\nlines\tand a tab",
    "<END>",
)
PAUSE = 0.03
COMMANDS = ("K:COMPRESS.RES", "K:HISTOGRAM.CMD")


def database():
    """Every type of EPICS Base that a softIoc can process, by chains of every sort."""
    with open(os.path.join(HERE, "kinds.db"), encoding="utf-8") as file:
        return file.read()


class Kinds(Plant):
    def __init__(self, directory, seed, options):
        super().__init__(directory, options)
        self.seed, self.random = seed, random.Random(seed)

    def start_iocs(self):
        text = database()
        self.records = parse("KINDS1", text)
        path = os.path.join(self.directory, "KINDS1.db")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        output = open(os.path.join(self.directory, "iocs.txt"), "w", encoding="utf-8")
        self.ioc = Ioc("KINDS1", PORT, path, log=output)
        self.iocs = {"KINDS1": {"name": "KINDS1", "pid": self.ioc.pid, "port": PORT}}
        self.ports = [PORT]
        self.scanned = [name for name, record in self.records.items() if "second" in record["fields"].get("SCAN", "")]
        self.looping = []

    def number(self):
        """A number of some size: also the odd ones."""
        return self.random.choice((
            0.0, 1.0, -1.0, 0.1, 1e300, -1e-300, 5e-324, 1 / 3, 2.0**53, 123456.789, -0.0, 1e308,
            -1.7976931348623157e308, 2.2250738585072014e-308, math.nan, math.inf, -math.inf,
            round(self.random.uniform(-100, 100), 3), float(self.random.randrange(-9, 10)),
        ))  # fmt: skip

    def choice(self):
        """A put: PV, DBR type, value."""
        pick, number = self.random.choice, self.number
        whole = self.random.randrange(-(2**31), 2**31)
        return pick((
            ("K:AO", DOUBLE, number()), ("K:AI", DOUBLE, number()), ("K:CHAIN", DOUBLE, number()),
            ("K:LONGOUT", LONG, whole), ("K:LONGIN", LONG, whole), ("K:LONGOUT", STRING, str(whole)),
            ("K:INT64OUT", STRING, str(pick((-(2**63), 2**63 - 1, 2**53 + 1, self.random.randrange(-(2**63), 2**63))))),
            ("K:INT64IN", STRING, str(self.random.randrange(-(2**63), 2**63))),
            ("K:BO", ENUM, pick((0, 1))), ("K:BI", ENUM, pick((0, 1))), ("K:BO", STRING, pick(("Shut", "Open"))),
            ("K:MBBO", ENUM, pick(range(6))), ("K:MBBO:ODD", ENUM, pick(range(6))),
            ("K:MBBI", ENUM, pick(range(6))), ("K:MBBO", STRING, pick(("Two", "5"))),
            ("K:MBBODIRECT", LONG, self.random.randrange(65536)), ("K:MBBODIRECT.B3", CHAR, pick((0, 1))),
            ("K:MBBIDIRECT", LONG, self.random.randrange(65536)),
            ("K:STRINGOUT", STRING, pick(WORDS)), ("K:STRINGIN", STRING, pick(WORDS)),
            ("K:LSO.VAL$", CHAR, list(pick(TEXTS).encode() + b"\0")),
            ("K:LSI.VAL$", CHAR, list(pick(TEXTS).encode() + b"\0")),
            ("K:WAVEFORM", DOUBLE, [number() for _ in range(self.random.randrange(1, 9))]),
            ("K:WAVE:SHORT", SHORT, [self.random.randrange(-(2**15), 2**15) for _ in range(5)]),
            ("K:WAVE:ENUM", ENUM, [1, 0, 3]), ("K:AAO", DOUBLE, [number() for _ in range(self.random.randrange(1, 7))]),
            ("K:AAI", LONG, [self.random.randrange(-999, 999) for _ in range(self.random.randrange(1, 7))]),
            ("K:SUBARRAY.INDX", LONG, pick((0, 1, 2))), ("K:SEL.SELN", SHORT, pick((0, 1, 2))),
            ("K:CALCOUT.B", DOUBLE, number()), ("K:SEQ.PROC", LONG, 1), ("K:FANOUT.PROC", LONG, 1),
            ("K:DFANOUT", DOUBLE, number()), ("K:EVENT.PROC", LONG, 1), ("K:PERMISSIVE", LONG, pick((0, 1))),
            ("K:STATE", STRING, pick(WORDS[:3])), ("K:SOURCE", DOUBLE, self.random.uniform(0, 10)),
            ("K:ASUB.PROC", LONG, 1), ("K:PRINTF.PROC", LONG, 1), ("K:CALC.B", DOUBLE, number()),
            ("K:AO.EGU", STRING, pick(("mm", "µm", "%"))),
            ("K:AO.DESC", STRING, pick(WORDS)), ("K:WAVE:TEXTS", STRING, [pick(WORDS) for _ in range(4)]),
            ("K:WAVE:BYTES", CHAR, [self.random.randrange(256) for _ in range(6)]), ("K:AO.HIHI", DOUBLE, number()),
            ("K:COMPRESS.RES", SHORT, 1),
            ("K:HISTOGRAM.CMD", ENUM, 1), ("K:AO.HHSV", STRING, pick(("MAJOR", "NO_ALARM"))),
        ))  # fmt: skip

    def run(self):
        self.start_iocs()
        self.observer = Observer(self.ports)
        self.observer.know(self.records)
        self.observer.ask(do="watch", pvs=list(self.records))
        self.client("ada", "libca", uid=65534, host="desk-1")
        self.client("bo", "caproto", user="bo", host="desk-2")
        self.client("cy", "libca", uid=1, host="desk-3")
        for name in self.clients:
            self.connect(name, "K:AO")
        time.sleep(0.5)
        begin = time.time_ns()
        recorder = Recorder(self.log, [self.ioc.pid], *self.options)
        self.recording = {"begin": begin, "recording": time.time_ns()}
        time.sleep(1.2)
        self.moment("T0")
        for part in range(1, 4):
            for _ in range(60):
                pv, dbr, value = self.choice()
                client = self.random.choice(list(self.clients))
                # the other client library has a mind of its own about text
                if dbr in (STRING, CHAR, ENUM):
                    client = self.random.choice(("ada", "cy"))
                notify = self.random.random() < 0.3
                # a command leaves nothing by which to tell whether it was carried out
                outcome = "unknown" if pv in COMMANDS and not notify else "ok"
                self.put(client, pv, dbr, value, notify=notify, outcome=outcome, pause=PAUSE)
            time.sleep(0.5)
            self.moment(f"T{part}")
        self.events = self.observer.ask(do="events")
        for name in self.clients:
            self.leave(name)
        self.observer.stop()
        time.sleep(0.5)
        begin = time.time_ns()
        self.ioc.stop()
        self.iocs["KINDS1"] |= {"begin": begin, "end": time.time_ns(), "busy": [],
                                "how": f"exit status {self.ioc.process.returncode}"}  # fmt: skip
        time.sleep(1)
        recorder.stop()
        self.recording["end"] = time.time_ns()
        self.write(seed=self.seed)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    private_net.enter()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    Kinds(os.path.abspath(sys.argv[1]), seed, sys.argv[3:]).run()


if __name__ == "__main__":
    main()
