"""What records an IOC beside us, and we: one class each, so that benches/run treats all alike.

probes: kernel probes (perf, bpftrace); console: EPICS Base's own TPRO; ust: LTTng-UST; breakpoints: ltrace.
"""

import os
import shutil

from loaded import CHAIN, HITS, disk_bytes, info
from processes import Recorder


class Watcher:
    """Watches one IOC from when it is made until `stop`."""

    name = ""
    # Which programs it needs, from which Debian packages.
    tools = {}
    # How many records its chain has, and how many hits of one chain it can see.
    chain = CHAIN
    hits = HITS
    # Whether it needs an IOC that is started for it; `environment` and `under` say how.
    own_ioc = False

    @classmethod
    def missing(cls):
        """Debian packages that it needs and that are not there."""
        return sorted({package for tool, package in cls.tools.items() if not shutil.which(tool)})

    @classmethod
    def environment(cls, _directory):
        """What the IOC has in its environment from its start."""
        return {}

    @classmethod
    def under(cls, _directory):
        """The command that starts the IOC."""
        return []

    def __init__(self, load, directory):
        pass

    def pids(self):
        """Its processes, whose CPU time and memory count."""
        return []

    def stop(self):
        pass

    def outcome(self, _result):
        """`hits` that it has recorded, the `bytes` of its file, and how many hits it says are missing (`told`), if it
        can; nothing if it does not record."""
        return {}


class Bare(Watcher):
    """No watcher."""

    name = "not recorded"


class Iocrec(Watcher):
    name = "iocrec record"

    def __init__(self, load, directory):
        self.log = os.path.join(directory, "log")
        shutil.rmtree(self.log, ignore_errors=True)
        self.recorder = Recorder(self.log, [load.pid], "--max-disk", "2G")

    def pids(self):
        return [self.recorder.pid]

    def stop(self):
        self.recorder.stop()

    def outcome(self, _result):
        (run,) = info(self.log)["runs"]
        hits = sum(run["facts"].get(fact, 0) for fact in ("process", "complete", "put"))
        told = sum(loss["count"] for loss in run["losses"])
        return {"hits": hits, "bytes": disk_bytes(self.log), "told": told}
