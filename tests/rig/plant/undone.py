#!/usr/bin/env python3
"""The plant of kinds.py, whose puts are undone on the living IOC: by the script of `iocreplay undo`.

    IOCREC=path/to/iocrec IOCREPLAY=path/to/iocreplay undone.py DIRECTORY [SEED] [OPTION of iocrec record...]

The script is run by caput and caget as found in PATH; some of the puts are caput's, too. Leaves the same as kinds.py,
and "undone" in truth.json: the moment since which puts were undone, what iocreplay and the script said, and of each PV
that was written since then the value that it had at that moment, before the script ran, and after. Needs root.
"""

import os
import random
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import private_net
from kinds import CHAR, COMMANDS, ENUM, PAUSE, PORT, STRING, Kinds
from processes import Recorder
from record import Observer


class Undone(Kinds):
    def environment(self):
        return os.environ | {
            "EPICS_CA_ADDR_LIST": f"127.0.0.1:{PORT}", "EPICS_CA_AUTO_ADDR_LIST": "NO",
            "EPICS_CA_SERVER_PORT": str(PORT), "EPICS_CA_MAX_ARRAY_BYTES": "1000000",
        }  # fmt: skip

    def moment(self, name, without=()):
        """Notes every field that may be written, too: some of them depend on each other."""
        chosen, self.random = self.random, random.Random(0)
        fields = {self.choice()[0] for _ in range(5000)}
        self.random = chosen
        super().moment(name, without)
        self.fields[name] = {pv: self.observer.get(pv)["value"] for pv in sorted(fields)}

    def by_caput(self, pv, value):
        """A put of a program that lives for a moment; its words are what a person would type."""
        before = self.observer.get(pv)["value"]
        begin = time.time_ns()
        words = ["-a", pv, str(len(value)), *map(str, value)] if isinstance(value, list) else [pv, str(value)]
        subprocess.run(["caput", *words], env=self.environment(), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)  # fmt: skip
        end = time.time_ns()
        after = self.observer.get(pv)["value"]
        self.puts.append({
            "begin": begin, "end": end, "client": None, "pv": pv, "dbr": STRING, "requested": None, "notify": False,
            "before": before, "after": after, "outcome": "unknown",
        })  # fmt: skip
        time.sleep(PAUSE)

    def run(self):
        self.fields = {}
        # in place of a repeater, which each caput would start, and which would outlive all of this
        self.repeater = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.repeater.bind(("", 5065))
        self.start_iocs()
        self.observer = Observer(self.ports)
        self.observer.know(self.records)
        self.observer.ask(do="watch", pvs=list(self.records))
        self.client("ada", "libca", uid=65534, host="desk-1")
        self.client("bo", "caproto", user="bo", host="desk-2")
        for name in self.clients:
            self.connect(name, "K:AO")
        time.sleep(0.5)
        begin = time.time_ns()
        recorder = Recorder(self.log, [self.ioc.pid], *self.options)
        self.recording = {"begin": begin, "recording": time.time_ns()}
        time.sleep(1.2)
        self.moment("T0")
        for part in range(1, 4):
            for _ in range(50):
                pv, dbr, value = self.choice()
                if pv in COMMANDS:
                    continue
                plain = not isinstance(value, str) or value.isalnum()
                if plain and dbr != CHAR and self.random.random() < 0.25:
                    self.by_caput(pv, value)
                    continue
                client = "ada" if dbr in (STRING, CHAR, ENUM) else self.random.choice(("ada", "bo"))
                self.put(client, pv, dbr, value, notify=self.random.random() < 0.3, pause=PAUSE)
            time.sleep(0.5)
            self.moment(f"T{part}")
        # what came of the last puts is read some time later
        time.sleep(2)
        recorder.stop()
        self.recording["end"] = time.time_ns()
        moment = f"T{self.seed % 3}"
        since = self.moments[moment]["time"]
        then = self.fields[moment]
        written = {put["pv"]: then[put["pv"]] for put in self.puts if put["begin"] >= since}
        now = {pv: self.observer.get(pv)["value"] for pv in written}
        undone = self.undo(since)
        time.sleep(1)
        found = {pv: self.observer.get(pv)["value"] for pv in written}
        values = {pv: {"then": written[pv], "before": now[pv], "after": found[pv]} for pv in written}
        self.events = self.observer.ask(do="events")
        for name in self.clients:
            self.leave(name)
        self.observer.stop()
        self.ioc.stop()
        self.iocs["KINDS1"] |= {"begin": 0, "end": 0, "busy": [], "how": None}
        self.write(seed=self.seed, undone=undone | {"moment": moment, "values": values})

    def undo(self, since):
        script = os.path.join(self.directory, "undo.sh")
        then = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(since // 10**9))}.{since % 10**9:09}Z"
        words = [os.environ["IOCREPLAY"], "undo", "--since", then, "-o", script, self.log]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        done = subprocess.run(["sh", script, "--yes"], env=self.environment(), capture_output=True, check=False)
        text = [output.decode(errors="replace") for output in (done.stdout, done.stderr)]
        return {"made": made.returncode, "remarks": made.stderr, "ran": done.returncode, "out": text[0], "err": text[1]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    private_net.enter()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    Undone(os.path.abspath(sys.argv[1]), seed, sys.argv[3:]).run()


if __name__ == "__main__":
    main()
