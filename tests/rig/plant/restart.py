#!/usr/bin/env python3
"""Another plant: IOCs that end and start again in the middle of the log, once while the recorder sees it and once not.

    IOCREC=path/to/iocrec restart.py DIRECTORY [OPTION of iocrec record...]

Leaves the same as record.py: the log and truth.json, in which "iocs" has each process of an IOC, in order, and "unseen"
is the time in which no recorder ran. LINAC1 is killed and starts again at once; RF1 ends and starts again while nobody
records. What each record holds when an IOC starts is what its database says. Takes half a minute. Needs root.
"""

import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import private_net
from processes import Ioc, Recorder, wait_until
from record import DOUBLE, ENUM, LINAC, RF, STRING, Observer, Plant


class Restart(Plant):
    def start(self, name):
        """Starts an IOC, the first time or once more."""
        port, other = (LINAC, RF) if name == "LINAC1" else (RF, LINAC)
        output = open(os.path.join(self.directory, "iocs.txt"), "a", encoding="utf-8")
        ioc = Ioc(name, port, os.path.join(self.directory, f"{name}.db"), find=[other], log=output)
        self.iocs[name] = {"name": name, "pid": ioc.pid, "port": port, "started": time.time_ns(), "how": None}
        self.processes.append(self.iocs[name])
        return ioc

    def start_iocs(self):
        self.processes = []
        super().start_iocs()
        # only the databases were wanted
        for ioc in (self.linac, self.rf):
            ioc.stop()
        self.linac, self.rf = self.start("LINAC1"), self.start("RF1")

    def kill(self, name, ioc, how):
        begin = time.time_ns()
        ioc.process.send_signal(how)
        ioc.process.wait()
        self.iocs[name] |= {"begin": begin, "end": time.time_ns(), "how": f"killed by {how.name}"}

    def recorder(self):
        recorder = Recorder(self.log, [], "--port", str(LINAC), "--port", str(RF), *self.options)
        self.wait_recording(recorder, 2)
        return recorder

    def wait_recording(self, recorder, count):
        wait_until("the recorder records", lambda: recorder.messages().count("recording ") >= count)
        time.sleep(1.5)

    def wait_connected(self):
        """Waits until the observer has found both IOCs again."""

        def is_connected():
            self.observer.process.stdin.write('{"do": "get", "pvs": ["LI:MAG1:SP", "RF:CAV1:ON"]}\n')
            self.observer.process.stdin.flush()
            return "error" not in json.loads(self.observer.process.stdout.readline())

        wait_until("the observer is connected", is_connected)

    def clients_come(self, more):
        """Two clients; an IOC that starts again has forgotten the circuits of those that were there."""
        self.client("ada" + more, "libca", uid=65534, host="desk-1")
        self.client("bo" + more, "libca", uid=1, host="desk-2")
        for name in ("ada" + more, "bo" + more):
            self.connect(name, "LI:MAG1:SP")
            self.connect(name, "RF:CAV1:ON")

    def some_puts(self, more, base):
        ada, bo = "ada" + more, "bo" + more
        self.put(ada, "LI:MAG1:SP", DOUBLE, base)
        self.put(bo, "LI:MAG2:SP", DOUBLE, base / 4, notify=True)
        self.put(ada, "LI:MODE", ENUM, 1)
        self.put(bo, "LI:NOTE", STRING, f"note {base}")
        self.put(bo, "LI:COR3:SP", DOUBLE, base / 40)
        self.put(ada, "LI:RF:REQ", DOUBLE, base / 10)
        self.wait("RF:AMP:SP", base / 10)
        self.put(bo, "RF:CAV1:ON", ENUM, 0)
        self.put(ada, "LI:MAG1:SP", DOUBLE, base + 1)

    def leave_all(self):
        for name, about in self.clients.items():
            if about["ended"] is None:
                self.leave(name)

    def run(self):
        self.start_iocs()
        self.observer = Observer(self.ports)
        self.observer.know(self.records)
        self.observer.ask(do="watch", pvs=list(self.records))
        self.wait("LI:BEAM:ENERGY", 5.0)
        self.clients_come("")
        begin = time.time_ns()
        recorder = self.recorder()
        self.recording = {"begin": begin, "recording": time.time_ns()}
        self.moment("T0")
        self.some_puts("", 40.0)
        self.put("bo", "LI:COR9:SP", DOUBLE, 2.0)  # and never again
        self.moment("T1")
        self.kill("LINAC1", self.linac, signal.SIGKILL)
        time.sleep(1.5)
        self.down = time.time_ns()
        time.sleep(0.5)
        self.leave_all()
        self.linac = self.start("LINAC1")
        self.wait_recording(recorder, 3)
        self.wait_connected()
        self.moment("T2")
        self.clients_come("-again")
        self.some_puts("-again", 60.0)
        self.moment("T3")
        unseen = time.time_ns()
        recorder.stop()
        time.sleep(0.5)
        self.kill("RF1", self.rf, signal.SIGTERM)
        time.sleep(0.5)
        self.rf = self.start("RF1")
        self.leave_all()
        recorder = self.recorder()
        self.wait_connected()
        self.moment("T4")
        self.clients_come("-third")
        self.some_puts("-third", 80.0)
        self.moment("END")
        self.leave_all()
        self.events = self.observer.ask(do="events")
        self.observer.stop()
        time.sleep(1)
        recorder.stop()
        self.recording["end"] = time.time_ns()
        for ioc in (self.linac, self.rf):
            ioc.stop()
        self.iocs = dict(enumerate(self.processes))
        self.write(down=self.down, unseen=unseen)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    private_net.enter()
    Restart(os.path.abspath(sys.argv[1]), sys.argv[2:]).run()


if __name__ == "__main__":
    main()
