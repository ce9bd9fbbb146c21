"""An IOC of PyPI's softioc: records whose values are Python's.

    python_ioc.py NAME PORT

Its records: PY:IN (I/O Intr), PY:OUT, PY:BUSY (processes until its Python code is done, 0.2 s), PY:READY.
Prints "ready" on stdout once it serves, then carries out each line of stdin and prints "done" after it:
RECORD VALUE calls the set() of that record; fork SECONDS forks a child that sleeps for so long, by multiprocessing, and
prints its process id; system COMMAND has a shell carry that out.
"""

import asyncio
import multiprocessing
import os
import sys
import time

from ioc import environment, restart_with


async def wait_a_little(_):
    await asyncio.sleep(0.2)


def main():
    name, port = sys.argv[1], int(sys.argv[2])
    restart_with(environment(name, port, []))

    from softioc import asyncio_dispatcher, builder, softioc

    dispatcher = asyncio_dispatcher.AsyncioDispatcher()
    records = {
        "PY:IN": builder.aIn("PY:IN"),
        "PY:OUT": builder.aOut("PY:OUT", always_update=True),
        "PY:BUSY": builder.aOut("PY:BUSY", on_update=wait_a_little, blocking=True, always_update=True),
        "PY:READY": builder.aOut("PY:READY", always_update=True),
    }
    builder.LoadDatabase()
    softioc.iocInit(dispatcher)
    print("ready", flush=True)
    for line in sys.stdin:
        word, value = line.strip().split(maxsplit=1)
        if word == "fork":
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(float(value),), daemon=True)
            child.start()
            print(child.pid, flush=True)
        elif word == "system":
            os.system(value)
        else:
            records[word].set(float(value))
        print("done", flush=True)


if __name__ == "__main__":
    main()
