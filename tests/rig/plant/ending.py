#!/usr/bin/env python3
"""Another plant: IOCs that end in every way, each while a recorder looks.

    IOCREC=path/to/iocrec ending.py DIRECTORY [OPTION of iocrec record...]

Leaves the log (log/) and truth.json, which has

    iocs      name, pid, port, how it ended as its parent learned (null: it did not), sentence: what is to be said of
              it where everything can be told, when (begin, end), busy: the
              records that had begun to process and did not complete; put: the last one, to which PV, by whom
    not_run   the ends that can't be had here, with the reason
    stopped   when the recorder was stopped
Takes half a minute. Needs root, and gcc. Times are nanoseconds since 1970.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import private_net
from processes import PYTHON, Client, Ioc, Recorder, shared_library, start, wait_until

from ioc import environment

DOUBLE = 6
FIRST_PORT = 5110
# By name: the subroutine that a put sets off, or what is done to the process.
ROUTINES = {"SEGV": "crash", "ABRT": "give_up", "LEFT": "leave", "OOM": "eat"}
SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM}
OTHERS = ("EOF", "EXIT", "RUNS")
GROUPS = {
    "/sys/fs/cgroup/memory": "memory.limit_in_bytes",
    "/sys/fs/cgroup/unified": "memory.max",
    "/sys/fs/cgroup": "memory.max",
}
MOST_MEMORY = 256 << 20


@contextlib.contextmanager
def little_memory():
    """A control group in which a process gets little memory; None if this machine has none."""
    for top, limit in GROUPS.items():
        group = os.path.join(top, f"iocrec-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, limit), "w", encoding="ascii") as file:
                file.write(str(MOST_MEMORY))
        except OSError:
            os.rmdir(group)
            continue
        try:
            yield group
        finally:
            # the kernel may still be tidying up behind the last process
            for _ in range(100):
                with contextlib.suppress(OSError):
                    os.rmdir(group)
                    break
                time.sleep(0.05)
        return
    yield None


# What softIoc's main() does after its start.
SHELL = (
    "import ctypes; from epicscorelibs import path; com = ctypes.CDLL(path.get_lib('Com')); "
    "com.iocsh(None); com.epicsExit(0)\n"
)


class ShellIoc(Ioc):
    """An IOC whose shell reads its commands."""

    def __init__(self, name, port, database, macros, log):
        command = [PYTHON, "-m", "epicscorelibs.ioc", "-m", macros, "-d", database]
        env = {**os.environ, **environment(name, port, ())}
        self.process = start(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env)
        self.pid = self.process.pid

    def stop(self):
        self.process.kill()
        self.process.wait()


def how(code):
    """A return code in the words of wait(2)."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


class Ending:
    def __init__(self, directory, options):
        self.directory, self.options = directory, options
        self.iocs, self.truth, self.clients, self.not_run = {}, {}, {}, []

    def start_iocs(self, group):
        library = shared_library(os.path.join(os.path.dirname(HERE), "routines.c"), self.directory)
        database = os.path.join(HERE, "ending.db")
        output = open(os.path.join(self.directory, "iocs.txt"), "w", encoding="utf-8")
        names = [*ROUTINES, *SIGNALS, *OTHERS]
        for number, name in enumerate(names):
            if name == "OOM" and not group:
                self.not_run.append("OOM: no control group with a limit of memory can be made")
                continue
            port, macros = FIRST_PORT + 10 * number, f"P={name}:"
            if name == "EXIT":
                ioc = ShellIoc(name, port, database, macros, output)
            else:
                macros += f",ROUTINE={ROUTINES.get(name, '')}"
                ioc = Ioc(name, port, database, macros=macros, log=output, routines=library)
            self.iocs[name] = ioc
            self.truth[name] = {"name": name, "pid": ioc.pid, "port": port, "how": None, "busy": [], "put": None}
        if group:
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(self.iocs["OOM"].pid))

    def end(self, name):
        """Ends an IOC, and notes what its parent learned of it."""
        ioc, truth, client = self.iocs[name], self.truth[name], self.clients[name]
        truth["begin"] = time.time_ns()
        pv, value = f"{name}:SP", 7.5
        if name in ROUTINES:
            # the answer never comes
            command = {"do": "put", "pv": pv, "dbr": DOUBLE, "value": value, "notify": True}
            client.process.stdin.write(json.dumps(command) + "\n")
            client.process.stdin.flush()
            truth["busy"] = [f"{name}:END"]
        else:
            client.put(pv, DOUBLE, value, True)
            time.sleep(0.5)
            if name in SIGNALS:
                ioc.process.send_signal(SIGNALS[name])
            elif name == "EXIT":
                for line in (SHELL, "exit\n"):
                    ioc.process.stdin.write(line)
                    ioc.process.stdin.flush()
                    time.sleep(0.5)  # so that Python's reader takes no line of the shell's
            elif name == "EOF":
                ioc.process.stdin.close()
        truth["put"] = {"pv": pv, "value": value, "user": client.who["user"], "answered": name not in ROUTINES}
        if name != "RUNS":
            truth["how"] = how(ioc.process.wait(30))
            truth["end"] = time.time_ns()
            truth["sentence"] = self.sentence(name)
        time.sleep(0.3)

    def sentence(self, name):
        """How it ended, with what this script and routines.c did."""
        how = self.truth[name]["how"]
        at = f", thread CAS-client, while processing {name}:END"
        with open("/proc/self/comm", encoding="ascii") as file:
            program = file.read().strip()
        return {
            "SEGV": f"{how} at address 0x8 in crash{at}",
            "ABRT": f"{how}, sent by itself{at}",
            "OOM": f"{how}, sent by the kernel for lack of memory",
        }.get(name, f"{how}, sent by pid {os.getpid()} ({program}, user root)" if name in SIGNALS else how)

    def run(self):
        with little_memory() as group:
            self.start_iocs(group)
            for name in self.iocs:
                client = self.clients[name] = Client("libca", [self.truth[name]["port"]], uid=65534)
                wait_until(f"{name} serves", lambda client=client, name=name: client.connect(f"{name}:SP"))
            recorder = Recorder(
                os.path.join(self.directory, "log"), [ioc.pid for ioc in self.iocs.values()], *self.options
            )
            time.sleep(2)
            for name in self.iocs:
                self.end(name)
            time.sleep(1.5)
            stopped = time.time_ns()
            recorder.stop()
        for client in self.clients.values():
            client.process.kill()
        truth = {"iocs": list(self.truth.values()), "not_run": self.not_run, "stopped": stopped}
        with open(os.path.join(self.directory, "truth.json"), "w", encoding="utf-8") as file:
            json.dump(truth, file)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    private_net.enter()
    Ending(os.path.abspath(sys.argv[1]), sys.argv[2:]).run()


if __name__ == "__main__":
    main()
