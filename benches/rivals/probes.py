"""Uprobes of others: two that do nothing, perf record and bpftrace, which write the facts that iocrec's hits carry."""

import os
import re
import select
import signal
import subprocess
import sys

import tracefs
from loaded import library
from processes import start, wait_until

from . import Watcher

# Offsets of calc.VAL, SEVR and STAT in EPICS Base 7.0.6 and later, 64-bit (epicscorelibs is pinned).
# bpftrace's -p leaves in the hits of other processes, hence the condition.
# In bpftrace 0.17 the name dbPut also matches C++ functions of the library; none of them is called
# by this load. The strings and values are what iocrec's hits carry.
BPFTRACE = """
uprobe:LIB:dbProcess /pid == PID/ {
    printf("P %llu %d %llx %s\\n", nsecs, tid, reg("sp"), str(arg0));
}
uprobe:LIB:recGblFwdLink /pid == PID/ {
    printf("F %llu %d %llx %s %llx %d %d\\n", nsecs, tid, reg("sp"), str(arg0),
        *(uint64 *)(arg0 + 688), *(uint16 *)(arg0 + 412), *(uint16 *)(arg0 + 410));
}
uprobe:LIB:dbPut /pid == PID/ {
    printf("W %llu %d %llx %s %d %d %llx %llx\\n", nsecs, tid, reg("sp"), str(*(uint64 *)arg0),
        arg1, arg3, *(uint64 *)arg2, *(uint64 *)(*(uint64 *)(arg0 + 8)));
}
uprobe:LIB:dbPutField /pid == PID/ {
    printf("w %llu %d %llx %s %d %d %llx %llx\\n", nsecs, tid, reg("sp"), str(*(uint64 *)arg0),
        arg1, arg3, *(uint64 *)arg2, *(uint64 *)(*(uint64 *)(arg0 + 8)));
}
"""

# The same facts as arguments of uprobe events, for perf record. The offsets are those of BPFTRACE.
PERF_EVENTS = {
    "dbProcess": "pact=+505(%di):u8 name=+0(%di):string",
    "recGblFwdLink": "name=+0(%di):string val=+688(%di):x64 stat=+410(%di):u16 sevr=+412(%di):u16",
    "dbPut": "name=+0(+0(%di)):string dbr=%si:u16 n=%cx:u64 new=+0(%dx):x64 old=+0(+8(%di)):x64",
    "dbPutField": "name=+0(+0(%di)):string dbr=%si:u16 n=%cx:u64 new=+0(%dx):x64 old=+0(+8(%di)):x64",
}


BREAKPOINT = b"\xcc"  # x86's int3


def end_bpftrace(process):
    """Ends bpftrace. 0.17 does not always exit on SIGINT; what it has not written by then is lost."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(ending)
        try:
            process.wait(timeout=10)
            return
        except subprocess.TimeoutExpired:
            pass


class Empty(Watcher):
    """Two uprobes, on dbProcess and recGblFwdLink, whose BPF programs do nothing: the least that a tracer can cost."""

    name = "two empty probes"
    tools = {"bpftrace": "bpftrace"}

    def __init__(self, load, _directory):
        script = 'BEGIN { printf("ready\\n"); } uprobe:LIB:dbProcess { } uprobe:LIB:recGblFwdLink { }'
        command = ["bpftrace", "-B", "none", "-p", str(load.pid), "-e", script.replace("LIB", library())]
        self.tracer = start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.tracer.stdout:
            if line.strip() == "ready":
                return
        sys.exit("bpftrace ended")

    def stop(self):
        # It has no output to lose.
        self.tracer.kill()
        self.tracer.wait()


class PerfRecord(Watcher):
    name = "perf record"
    tools = {"perf": "linux-perf", "readelf": "binutils"}

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "perf.data")
        self.errors = os.path.join(directory, "perf-errors.txt")
        uprobe_events(
            f"p:iocrec_bench/{function} {library()}:{offset(function)} {arguments}"
            for function, arguments in PERF_EVENTS.items()
        )
        # Its default of 512 KiB a CPU loses most of this load. It begins when it is told so, and says when it has.
        pipes = [os.path.join(directory, name) for name in ("perf-control", "perf-answer")]
        for pipe in pipes:
            if not os.path.exists(pipe):
                os.mkfifo(pipe)
        control, answer = (os.open(pipe, os.O_RDWR | os.O_NONBLOCK) for pipe in pipes)
        command = ["perf", "record", "-m", "2048", "-e", "iocrec_bench:*", "-p", str(load.pid), "-o", self.output]
        command += ["--delay=-1", f"--control=fifo:{','.join(pipes)}"]
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = start(command, stdout=errors, stderr=errors)
        os.write(control, b"enable\n")
        wait_until("perf records", lambda: select.select([answer], [], [], 0)[0])
        os.close(control)
        os.close(answer)

    def pids(self):
        return [self.process.pid]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        uprobe_events(f"-:iocrec_bench/{function}" for function in PERF_EVENTS)

    def outcome(self, _result):
        with open(self.errors, encoding="utf-8") as file:
            text = file.read()
        samples = re.search(r"\((?:~)?(\d+) samples\)", text)
        return {"hits": int(samples.group(1)) if samples else 0, "bytes": os.stat(self.output).st_size}


class Bpftrace(Watcher):
    name = "bpftrace"
    tools = {"bpftrace": "bpftrace"}

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "bpftrace.txt")
        self.errors = os.path.join(directory, "bpftrace-errors.txt")
        if os.path.exists(self.output):
            # That of the last run would look as if it recorded already.
            os.remove(self.output)
        script = bpftrace_script(load.pid)
        # Its default of 64 pages a CPU loses most of this load.
        environment = {**os.environ, "BPFTRACE_PERF_RB_PAGES": "2048", "BPFTRACE_STRLEN": "61"}
        command = ["bpftrace", "-B", "full", "-p", str(load.pid), "-o", self.output, "-e", script]
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = start(command, stdout=errors, stderr=errors, env=environment)
        wait_until("bpftrace records", lambda: self.ready(load))

    def pids(self):
        return [self.process.pid]

    def ready(self, load):
        load.run(0.05, 1000)
        return os.path.exists(self.output) and os.stat(self.output).st_size > 8192

    def stop(self):
        end_bpftrace(self.process)

    def outcome(self, result):
        hits, size, told = 0, 0, 0
        # Hits of the readiness check came earlier.
        begin = int(result["begin"] * 1e9)
        with open(self.output, "rb") as file:
            for line in file:
                if line[:2] in (b"P ", b"F ", b"W ", b"w "):
                    if int(line.split(b" ", 2)[1]) >= begin:
                        hits += 1
                        size += len(line)
                elif line.startswith(b"Lost "):
                    told += int(line.split()[1])
        return {"hits": hits, "bytes": size, "told": told}


def bpftrace_script(pid):
    return BPFTRACE.replace("LIB", library()).replace("PID", str(pid))


def uprobe_events(lines):
    """Defines or removes events of the kernel's."""
    # One event a write; and Python's own append mode seeks, which tracefs refuses.
    file = os.open(tracefs.EVENTS, os.O_WRONLY | os.O_APPEND)
    for line in lines:
        os.write(file, (line + "\n").encode())
    os.close(file)


def offset(function):
    """File offset of a function of the library (whose code is mapped at the same offset)."""
    command = ["readelf", "--wide", "--dyn-syms", library()]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    value = re.search(rf"^\s*\d+: ([0-9a-f]+) .* FUNC .* {function}$", symbols, re.MULTILINE).group(1)
    return "0x" + value.lstrip("0")


def is_probed(pid):
    """Whether somebody has a probe on dbProcess in this process: a recorder of all IOCs of the machine, say."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        begin = min(int(line.split("-")[0], 16) for line in file if line.rstrip().endswith(os.path.realpath(library())))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(begin + int(offset("dbProcess"), 16))
        return memory.read(1) == BREAKPOINT
