"""A Channel Access server that is not EPICS Base (caproto), on loopback.

    foreign_server.py PORT PV

Serves one DOUBLE. Prints "ready" once it serves; ends when stdin ends.
"""

import asyncio
import os
import sys

from caproto import ChannelDouble
from caproto.asyncio.server import Context


async def serve(port, pv):
    os.environ["EPICS_CA_SERVER_PORT"] = port
    os.environ["EPICS_CAS_BEACON_ADDR_LIST"] = "127.0.0.1"
    os.environ["EPICS_CAS_AUTO_BEACON_ADDR_LIST"] = "NO"

    async def say_ready(_library):
        print("ready", flush=True)

    context = Context({pv: ChannelDouble(value=0.0)}, ["127.0.0.1"])
    server = asyncio.create_task(context.run(log_pv_names=False, startup_hook=say_ready))
    await asyncio.to_thread(sys.stdin.read)
    server.cancel()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
