#!/usr/bin/env python3
"""The plant: two IOCs, five clients and a recorder act out a script, which writes down what truly happened.

    IOCREC=path/to/iocrec record.py DIRECTORY [OPTION of iocrec record...]

Leaves in DIRECTORY the log (log/) and the truth (truth.json), which comes from the script itself and from a client
that only looks (observer.py), never from the recorder. Takes half a minute. Everything runs in a network of its own
with nothing but loopback. Needs root.

truth.json has
    iocs      name, pid, port, and how it ended: at (ns since 1970), how
    clients   name in this script, library, user, host, pid, address by port, and when it came and went
    records   IOC, type and fields as loaded, by name
    scanned   the records that a periodic scan processes; looping: those of loops, of which the observer misses values
    puts      every put from outside, in order: when (begin, end), client, pv, dbr, requested, notify, before and after
              (as read before begin and after end), outcome (ok, clamped, denied, ECA_PUTFAIL); client null: the shell
    acknowledgements  which of those puts were to acknowledge an alarm; their before and after are of ACKS or ACKT
    marks     text, begin, end
    moments   by name: time, and a reading of every record then (see observer.py)
    events    by PV: every value and alarm that the observer was sent, by the IOC's own time stamps
    causes    PV, and what its last change before a time came from: the put (a number in puts) and the records between
    fights, flapping, loops   what they are, from when to when
Times are nanoseconds since 1970.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import private_net
from observer import plain
from processes import PYTHON, Client, Ioc, Recorder, program, start, wait_until

LINAC, RF = 5074, 5084  # CA ports
STRING, SHORT, FLOAT, ENUM, CHAR, LONG, DOUBLE, ACKT, ACKS = 0, 1, 2, 3, 4, 5, 6, 35, 36
MINOR, MAJOR, INVALID = 1, 2, 3
ECA_NORMAL, ECA_PUTFAIL, ECA_NOWTACCESS = 1, 160, 376
# Between puts, so that nobody can take one for another's.
PAUSE = 0.08
# How many turns the loops take: they run at full speed, and a recorder built for debugging has to keep up.
TURNS, EVENT_TURNS = 1500, 300


def alike():
    """The records that there are many of, as database text for each IOC."""
    linac, rf = [], []
    for n in range(1, 7):
        linac.append(f"""record(calc, "LI:TICK{n}") {{
    field(SCAN, ".1 second")
    field(INPA, "LI:TICK{n} NPP")
    field(CALC, "A+{n}")
}}""")
    for n in range(1, 25):
        for axis in "XY":
            linac.append(f"""record(calc, "LI:BPM{n}:{axis}") {{
    field(DESC, "Beam position {n} {axis}")
    field(SCAN, "1 second")
    field(INPA, "LI:BPM{n}:{axis} NPP")
    field(CALC, "A>=9?{-9}:A+1")
    field(EGU, "mm")
    field(PREC, "3")
    field(HOPR, "10")
    field(LOPR, "-10")
    field(HIGH, "8")
    field(HSV, "{"MINOR" if n == 7 and axis == "X" else "NO_ALARM"}")
}}""")
    for n in range(1, 41):
        linac.append(f"""record(ao, "LI:COR{n}:SP") {{
    field(DESC, "Corrector {n}")
    field(EGU, "mrad")
    field(PREC, "3")
    field(DRVL, "-5")
    field(DRVH, "5")
    field(PINI, "YES")
    field(FLNK, "LI:COR{n}:RB")
}}
record(calc, "LI:COR{n}:RB") {{
    field(INPA, "LI:COR{n}:SP NPP")
    field(CALC, "A*2")
}}""")
    for n in range(1, 21):
        rf.append(f"""record(calc, "RF:CAV{n}:TEMP") {{
    field(DESC, "Cavity {n}")
    field(SCAN, ".5 second")
    field(INPA, "RF:CAV{n}:TEMP NPP")
    field(CALC, "A>=40?30:A+0.25")
    field(EGU, "C")
    field(PREC, "2")
}}
record(bo, "RF:CAV{n}:ON") {{
    field(ZNAM, "Off")
    field(ONAM, "On")
    field(VAL, "{n % 2}")
    field(PINI, "{"YES" if n <= 10 else "NO"}")
}}""")
    return "\n".join(linac) + "\n", "\n".join(rf) + "\n"


def parse(ioc, text):
    """The records of a database, as this script writes them: {name: {ioc, type, fields}}."""
    records = {}
    for line in text.splitlines():
        if found := re.match(r'record\((\w+), "([^"]+)"\)', line):
            kind, name = found.groups()
            records[name] = {"ioc": ioc, "type": kind, "fields": {}}
        elif found := re.match(r'\s+field\((\w+), "([^"]*)"\)', line):
            records[name]["fields"][found[1]] = found[2]
    return records


class Observer:
    """The client that only looks (observer.py)."""

    def __init__(self, ports):
        command = [PYTHON, os.path.join(HERE, "observer.py"), ",".join(map(str, ports))]
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.exit(f"observer: {command}: {answer['error']}")
        return answer

    def know(self, records):
        """Tells it of records whose value has 64 bits, or text that can be longer than a DBR_STRING."""
        of = {kind: [] for kind in ("int64in", "int64out", "lsi", "lso", "printf")}
        for name, record in records.items():
            of.get(record["type"], []).append(name)
        self.ask(do="know", wide=of["int64in"] + of["int64out"], long=of["lsi"] + of["lso"] + of["printf"])

    def get(self, pv):
        return self.ask(do="get", pvs=[pv])[pv]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Plant:
    def __init__(self, directory, options):
        self.directory, self.options = directory, options
        self.log = os.path.join(directory, "log")
        self.records, self.clients = {}, {}
        self.puts, self.acknowledgements, self.marks, self.causes = [], [], [], []
        self.moments = {}
        self.fights, self.flapping, self.loops = [], [], []

    # What the script is made of.

    def start_iocs(self):
        texts = {}
        for name, file, more in zip(("LINAC1", "RF1"), ("linac.db", "rf.db"), alike()):
            with open(os.path.join(HERE, file), encoding="utf-8") as database:
                text = database.read() + more
            self.records |= parse(name, text)
            texts[name] = os.path.join(self.directory, f"{name}.db")
            with open(texts[name], "w", encoding="utf-8") as database:
                database.write(text)
        output = open(os.path.join(self.directory, "iocs.txt"), "w", encoding="utf-8")
        access = os.path.join(HERE, "access.acf")
        self.rf = Ioc("RF1", RF, texts["RF1"], find=[LINAC], log=output)
        self.linac = Ioc("LINAC1", LINAC, texts["LINAC1"], find=[RF], log=output, access=access)
        self.ports = [LINAC, RF]
        self.iocs = {
            "LINAC1": {"name": "LINAC1", "pid": self.linac.pid, "port": LINAC},
            "RF1": {"name": "RF1", "pid": self.rf.pid, "port": RF},
        }
        self.scanned = [name for name, record in self.records.items() if "second" in record["fields"].get("SCAN", "")]
        self.looping = ["RF:LOOP:A", "RF:LOOP:B", "RF:EVENT:LOOP"]

    def client(self, name, library, **claims):
        client = Client(library, self.ports, **claims)
        self.clients[name] = {
            "name": name,
            "library": library,
            "user": client.who["user"],
            "host": client.who["host"],
            "pid": client.process.pid,
            "began": time.time_ns(),
            "ended": None,
            "addresses": {},
            "client": client,
        }
        return name

    def connect(self, name, pv):
        about = self.clients[name]
        port = self.iocs[self.records[pv.split(".")[0]]["ioc"]]["port"]
        address = about["client"].connect(pv)
        if about["addresses"].setdefault(str(port), address) != address:
            sys.exit(f"{name} has another address: {address}")

    def leave(self, name):
        about = self.clients[name]
        about["client"].stop()
        about["ended"] = time.time_ns()

    def put(self, name, pv, dbr, value, notify=False, outcome="ok", pause=PAUSE):
        """A put by a client; its number."""
        self.connect(name, pv)
        before = self.observer.get(pv)["value"]
        begin = time.time_ns()
        status = self.clients[name]["client"].put(pv, dbr, value, notify)
        end = time.time_ns()
        after = self.observer.get(pv)["value"]
        if notify and outcome != "unknown":
            expected = {"ECA_PUTFAIL": ECA_PUTFAIL, "denied": ECA_NOWTACCESS}.get(outcome, ECA_NORMAL)
            if status != expected:
                sys.exit(f"{name} put {value} to {pv}: status {status}, not {expected}")
        if outcome in ("denied", "ECA_PUTFAIL") and before != after:
            sys.exit(f"{pv} was to refuse {value}, but is {after}")
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        value = plain(value, False)
        self.puts.append({
            "begin": begin, "end": end, "client": name, "pv": pv, "dbr": dbr, "requested": value, "notify": notify,
            "before": before, "after": after, "outcome": outcome,
        })  # fmt: skip
        time.sleep(pause)
        return len(self.puts) - 1

    def acknowledge(self, name, pv, dbr, value):
        before = self.observer.get(pv + (".ACKS" if dbr == ACKS else ".ACKT"))["value"]
        self.connect(name, pv)
        begin = time.time_ns()
        self.clients[name]["client"].put(pv, dbr, value)
        end = time.time_ns()
        after = self.observer.get(pv + (".ACKS" if dbr == ACKS else ".ACKT"))["value"]
        self.puts.append({
            "begin": begin, "end": end, "client": name, "pv": pv, "dbr": dbr, "requested": value, "notify": False,
            "before": before, "after": after, "outcome": "ok",
        })  # fmt: skip
        self.acknowledgements.append(len(self.puts) - 1)
        # the recorder reads what came of it from the IOC's memory, some time later
        time.sleep(0.7)

    def shell(self, pv, value):
        before = self.observer.get(pv)["value"]
        begin = time.time_ns()
        self.linac.command(f"dbpf {pv} {value}")
        end = time.time_ns()
        self.puts.append({
            "begin": begin, "end": end, "client": None, "pv": pv, "dbr": STRING, "requested": value, "notify": False,
            "before": before, "after": self.observer.get(pv)["value"], "outcome": "ok",
        })  # fmt: skip
        time.sleep(PAUSE)

    def mark(self, text):
        begin = time.time_ns()
        subprocess.run([program("iocrec"), "mark", "--dir", self.log, text], check=True, stdout=subprocess.DEVNULL)
        self.marks.append({"text": text, "begin": begin, "end": time.time_ns()})

    def moment(self, name, without=()):
        """Notes what every record holds, while only what is scanned changes."""
        time.sleep(0.4)
        pvs = [pv for pv in self.records if self.records[pv]["ioc"] not in without]
        readings = self.observer.ask(do="get", pvs=pvs)
        self.moments[name] = {"time": time.time_ns(), "readings": readings}
        time.sleep(0.4)

    def because(self, pv, put, path, kind):
        """Notes that the change of a PV that just happened comes from a put, through these records."""
        self.causes.append({"pv": pv, "time": time.time_ns(), "put": put, "path": path, "kind": kind,
                            "to": self.observer.get(pv)["value"]})  # fmt: skip

    def wait(self, pv, value):
        wait_until(f"{pv} is {value}", lambda: self.observer.get(pv)["value"] == value)

    # The script.

    def run(self):
        self.start_iocs()
        self.observer = Observer(self.ports)
        self.observer.know(self.records)
        self.observer.ask(do="watch", pvs=list(self.records))
        self.wait("LI:BEAM:ENERGY", 5.0)
        # Three are there before the recorder, two come later.
        self.client("console", "libca", uid=65534, host="console-3")
        self.client("expert", "libca", uid=1, host="laptop-7")
        self.client("bob", "caproto", user="bob", host="office-7")
        for name, pv in (("console", "LI:MAG1:SP"), ("expert", "LI:MAG2:SP"), ("bob", "LI:PHASE:SP")):
            self.connect(name, pv)
        # a CA link that has carried one value carries all
        self.puts_before_the_recording()
        time.sleep(1)
        begin = time.time_ns()
        recorder = Recorder(self.log, [self.linac.pid, self.rf.pid], *self.options)
        self.recording = {"begin": begin, "recording": time.time_ns()}
        time.sleep(1.5)
        self.moment("T0")
        self.set_up()
        self.moment("T1")
        self.every_type()
        self.chains()
        self.moment("T2")
        self.mark("beam on")
        self.alarms()
        self.moment("T3")
        self.fight()
        self.flap()
        self.loop()
        self.moment("T4")
        self.kill()
        self.moment("T5", without=("RF1",))
        self.end(recorder)
        self.write()

    def puts_before_the_recording(self):
        self.clients["console"]["client"].put("LI:RF:REQ", DOUBLE, 4.0)
        self.wait("RF:AMP:SP", 4.0)
        self.wait("LI:BEAM:ENERGY", 11.0)
        # each was INVALID for a moment when it started
        for pv in ("LI:TEMP1", "LI:VAC1:PRESS"):
            self.clients["console"]["client"].put(pv, ACKS, INVALID)

    def set_up(self):
        """Set points, by several users."""
        for n in range(1, 9):
            self.put("console", f"LI:COR{n}:SP", DOUBLE, n / 4)
        self.put("console", "LI:MAG1:SP", DOUBLE, 40.0)
        self.client("alice", "caproto", user="alice", host="control-2")
        self.put("alice", "LI:GUN:HV", DOUBLE, 120.5, notify=True)
        self.put("bob", "LI:GUN:HV", DOUBLE, 150.0, notify=True, outcome="denied")
        self.put("bob", "LI:GUN:HV", DOUBLE, 151.0, outcome="denied")
        self.put("expert", "LI:LOCKED", DOUBLE, 1.0, notify=True, outcome="ECA_PUTFAIL")
        self.put("expert", "LI:MAG2:SP", FLOAT, 12.5)
        self.put("expert", "LI:MAG2:SP.DESC", STRING, "Quadrupole 2, do not touch")
        self.put("expert", "LI:TEMP1.HIGH", DOUBLE, 45.0)
        self.put("console", "LI:MAG1:SP", DOUBLE, 130.0, notify=True, outcome="clamped")
        self.put("console", "LI:MAG1:SP", DOUBLE, 60.0)
        self.put("console", "LI:MAG1:SP", DOUBLE, 60.0)

    def every_type(self):
        """A put to a record of every type."""
        put = self.put
        put("alice", "LI:MODE", ENUM, 1)
        number = put("alice", "LI:MODE", STRING, "On", notify=True)
        self.because("LI:MODE", number, ["LI:MODE"], "put")
        put("alice", "LI:VALVE", ENUM, 1)
        put("alice", "LI:VALVE", STRING, "Closed", notify=True)
        put("alice", "LI:NOTE", STRING, "shift of alice, all well")
        put("alice", "LI:LONGNOTE.VAL$", CHAR, list(b"a note that is longer than the forty characters of a string\0"))
        put("expert", "LI:COUNT64", STRING, "9007199254740993")
        put("expert", "LI:COUNT64", DOUBLE, -12.0, notify=True)
        put("expert", "LI:STEPS", LONG, -3)
        put("expert", "LI:STEPS", SHORT, 99, outcome="clamped")
        put("alice", "LI:CURVE", DOUBLE, [0.0, 0.5, 1.5, -2.25])
        put("alice", "LI:CURVE", DOUBLE, [1.0, 2.0], notify=True)
        put("alice", "LI:NAMES", STRING, ["north", "", "south, east"])
        put("expert", "LI:BYTES", CHAR, [0, 255, 7])
        self.shell("LI:SHELL", "4.5")

    def chains(self):
        """What puts set off: forward links, CP links, CA links, scans, asynchronous records."""
        number = self.put("console", "LI:MAG1:SP", DOUBLE, 72.0)
        self.wait("LI:OPTICS:SUM", 72 * 0.0125 * 20 + 12.5)
        self.because("LI:MAG1:RB", number, ["LI:MAG1:SP", "LI:MAG1:RB"], "forward link")
        path = ["LI:MAG1:SP", "LI:MAG1:FIELD", "LI:MAG1:GRADIENT", "LI:OPTICS:SUM"]
        self.because("LI:OPTICS:SUM", number, path, "CP")
        number = self.put("expert", "LI:RF:REQ", DOUBLE, 8.0)
        self.wait("LI:BEAM:ENERGY", 17.0)
        path = ["LI:RF:REQ", "RF:AMP:SP", "RF:AMP:RB"]
        self.because("RF:AMP:RB", number, path, "CA link")
        self.because("LI:BEAM:ENERGY", number, [*path, "LI:BEAM:ENERGY"], "CA link, CP")
        number = self.put("alice", "LI:VAC1:RAW", DOUBLE, 3.5)
        self.wait("LI:VAC1:PRESS", 3.5)
        self.because("LI:VAC1:PRESS", number, ["LI:VAC1:RAW", "LI:VAC1:PRESS"], "scan")
        number = self.put("alice", "LI:SLOW.A", DOUBLE, 4.0, notify=True)
        self.wait("LI:SLOW:DONE", 5.0)
        self.because("LI:SLOW:DONE", number, ["LI:SLOW", "LI:SLOW:DONE"], "asynchronous")

    def alarms(self):
        """Alarms that come and go, and are acknowledged."""
        number = self.put("bob", "LI:TEMP1:RAW", DOUBLE, 50.0)
        self.wait("LI:TEMP1", 50.0)
        self.because("LI:TEMP1", number, ["LI:TEMP1:RAW", "LI:TEMP1"], "CP")
        self.put("bob", "LI:TEMP1:RAW", DOUBLE, 70.0, pause=0.5)
        self.wait("LI:TEMP1", 70.0)
        self.acknowledge("console", "LI:TEMP1", ACKS, MAJOR)
        self.put("bob", "LI:TEMP1:RAW", DOUBLE, 30.0, pause=0.5)
        self.wait("LI:TEMP1", 30.0)
        self.put("bob", "LI:TEMP1:RAW", DOUBLE, 8.0)
        self.wait("LI:TEMP1", 8.0)
        # MINOR, which acknowledges no MAJOR
        self.put("bob", "LI:TEMP1:RAW", DOUBLE, 2.0)
        self.wait("LI:TEMP1", 2.0)
        self.acknowledge("expert", "LI:TEMP1", ACKS, MINOR)
        self.acknowledge("console", "LI:TEMP1", ACKS, MAJOR)
        self.put("bob", "LI:TEMP1:RAW", DOUBLE, 26.0)
        self.wait("LI:TEMP1", 26.0)
        self.put("expert", "LI:MAG1:SP", DOUBLE, 98.0)
        self.wait("LI:MAG1:FIELD", 98 * 0.0125)
        self.put("expert", "LI:MAG1:SP", DOUBLE, 84.0)
        self.wait("LI:MAG1:FIELD", 84 * 0.0125)
        self.put("bob", "LI:PUMP:RATIO.B", DOUBLE, 0.0)
        self.put("bob", "LI:PUMP:RATIO.B", DOUBLE, 3.0)
        self.put("alice", "LI:MODE", ENUM, 3)
        self.put("alice", "LI:MODE", ENUM, 2)
        self.put("alice", "LI:VAC1:RAW", DOUBLE, 300.0)
        self.wait("LI:VAC1:PRESS", 300.0)
        self.acknowledge("console", "LI:VAC1:PRESS", ACKT, 0)
        self.put("alice", "LI:VAC1:RAW", DOUBLE, 4.0)
        self.wait("LI:VAC1:PRESS", 4.0)
        # this one stays
        number = self.put("expert", "LI:WATER:FLOW", DOUBLE, 3.0, notify=True)
        self.because("LI:WATER:FLOW", number, ["LI:WATER:FLOW"], "put")
        # across the IOCs
        self.put("alice", "LI:RF:REQ", DOUBLE, 26.0)
        self.wait("LI:BEAM:ENERGY", 44.0)
        self.put("alice", "LI:RF:REQ", DOUBLE, 10.0)
        self.wait("LI:BEAM:ENERGY", 20.0)

    def fight(self):
        """Two write what each thinks right."""
        begin = time.time_ns()
        numbers = []
        for n in range(15):
            numbers.append(self.put("console", "LI:PHASE:SP", DOUBLE, 30.0 + n / 10, pause=0.06))
            numbers.append(self.put("bob", "LI:PHASE:SP", DOUBLE, -30.0, pause=0.06))
        self.fights.append({"pv": "LI:PHASE:SP", "clients": ["console", "bob"], "puts": numbers,
                            "begin": begin, "end": time.time_ns()})  # fmt: skip

    def flap(self):
        begin = time.time_ns()
        self.put("expert", "LI:FLAP:GATE", ENUM, 1, pause=4)
        self.put("expert", "LI:FLAP:GATE", ENUM, 0, pause=0.3)
        self.flapping.append({"pv": "LI:FLAP", "begin": begin, "end": time.time_ns()})

    def loop(self):
        begin = time.time_ns()
        self.put("bob", "RF:LOOP:LIMIT", DOUBLE, float(TURNS))
        self.put("bob", "RF:LOOP:A.PROC", LONG, 1)
        self.wait("RF:LOOP:B", float(TURNS))
        end = time.time_ns()
        self.loops.append(
            {"records": ["RF:LOOP:A", "RF:LOOP:B"], "by": "CP", "turns": TURNS, "begin": begin, "end": end}
        )
        begin = time.time_ns()
        self.put("bob", "RF:EVENT:LIMIT", DOUBLE, float(EVENT_TURNS))
        self.put("bob", "RF:EVENT:LOOP.PROC", LONG, 1)
        self.wait("RF:EVENT:LOOP", float(EVENT_TURNS))
        end = time.time_ns()
        self.loops.append(
            {"records": ["RF:EVENT:LOOP"], "by": "event", "turns": EVENT_TURNS, "begin": begin, "end": end}
        )

    def kill(self):
        """RF1 dies while one of its records is at it."""
        # a client that comes for one put
        self.client("visitor", "libca", uid=2, host="visitor")
        self.put("visitor", "LI:COR20:SP", DOUBLE, 1.25)
        self.leave("visitor")
        self.put("expert", "RF:TUNER:MOVE.A", DOUBLE, 7.0, pause=1.5)
        begin = time.time_ns()
        self.rf.process.send_signal(signal.SIGKILL)
        self.rf.process.wait()
        self.iocs["RF1"] |= {"begin": begin, "end": time.time_ns(), "how": "killed by SIGKILL",
                             "busy": ["RF:TUNER:MOVE"]}  # fmt: skip
        time.sleep(1)

    def end(self, recorder):
        self.mark("end of the shift")
        self.put("console", "LI:MAG1:SP", DOUBLE, 20.0, pause=0.5)
        self.moment("END", without=("RF1",))
        self.events = self.observer.ask(do="events")
        for name, about in self.clients.items():
            if about["ended"] is None:
                self.leave(name)
        self.observer.stop()
        begin = time.time_ns()
        self.linac.stop()
        self.iocs["LINAC1"] |= {"begin": begin, "end": time.time_ns(), "busy": [],
                                "how": f"exit status {self.linac.process.returncode}"}  # fmt: skip
        time.sleep(1.5)
        recorder.stop()
        self.recording["end"] = time.time_ns()

    def write(self, **more):
        clients = [{key: value for key, value in about.items() if key != "client"} for about in self.clients.values()]
        truth = {
            "version": 1,
            "recording": self.recording,
            "iocs": list(self.iocs.values()),
            "clients": clients,
            "records": self.records,
            "scanned": self.scanned,
            "looping": self.looping,
            "puts": self.puts,
            "acknowledgements": self.acknowledgements,
            "marks": self.marks,
            "moments": self.moments,
            "causes": self.causes,
            "fights": self.fights,
            "flapping": self.flapping,
            "loops": self.loops,
            "events": self.events,
            **more,
        }
        with open(os.path.join(self.directory, "truth.json"), "w", encoding="utf-8") as file:
            json.dump(truth, file, allow_nan=False)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    private_net.enter()
    Plant(os.path.abspath(sys.argv[1]), sys.argv[2:]).run()


if __name__ == "__main__":
    main()
