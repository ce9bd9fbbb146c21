"""Builds the static binaries that guests need: each target once, side by side, while earlier guests boot."""

import concurrent.futures
import os
import pathlib

from debian import run

HERE = pathlib.Path(__file__).resolve().parent
# How many targets are built at a time: more than processors, since what takes longest, optimizing the agent as a whole,
# takes one. Each needs more than 1 GB of memory for it.
AT_A_TIME = (os.cpu_count() or 1) + 1


class Builds:
    """The builds that have begun, by target."""

    def __init__(self, guests):
        """Begins to build for all guests, in their order."""
        self.pool = concurrent.futures.ThreadPoolExecutor(AT_A_TIME)
        targets = dict.fromkeys(guest.target for guest in guests)
        # packaging/deb makes the package of the reader, too
        packaged = {guest.target for guest in guests if guest.service}
        self.running = {target: self.pool.submit(build, target, target in packaged) for target in targets}

    def wait(self, target):
        """Returns when a target's binaries are up to date; ends the program if they could not be built."""
        try:
            self.running[target].result()
        except SystemExit:
            self.pool.shutdown(cancel_futures=True)
            raise


def build(target, reader):
    """Brings a target's binaries in dist/ up to date, without taking time from a guest that runs meanwhile."""
    command = ["nice", "-n", "19", HERE / "build", *([] if reader else ["--agent"]), target]
    print(run(command).strip(), flush=True)
