"""A PVAccess server without records (p4p), on loopback.

    pva_server.py PORT SEARCH_PORT PV [INTERFACE]

Serves one double on TCP PORT of the address INTERFACE (127.0.0.1), and is searched for on UDP SEARCH_PORT. It takes
no negative values. A call (RPC) of the PV adds the arguments a and b of an NTURI, and is refused without them. Prints
"ready" once it serves; ends when stdin ends. Needs EPICS_PVAS_SERVER_PORT and EPICS_PVAS_BROADCAST_PORT in its
environment: see pva_server in client.rs.
"""

import sys

from p4p.nt import NTScalar
from p4p.server import Server
from p4p.server.thread import SharedPV


def main():
    port, search_port, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    interface = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
    pv = SharedPV(nt=NTScalar("d"), initial=0.0)

    @pv.put
    def put(pv, op):
        value = op.value()
        if value < 0:
            op.done(error="no negative values")
        else:
            pv.post(value)
            op.done()

    @pv.rpc
    def call(pv, op):
        try:
            query = op.value().query
            op.done(NTScalar("d").wrap(float(query.a) + float(query.b)))
        except AttributeError:
            op.done(error="a and b are missing")

    configuration = {
        "EPICS_PVAS_INTF_ADDR_LIST": interface,
        "EPICS_PVAS_BEACON_ADDR_LIST": interface,
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_PVAS_SERVER_PORT": str(port),
        "EPICS_PVAS_BROADCAST_PORT": str(search_port),
    }
    with Server(providers=[{name: pv}], conf=configuration, useenv=False):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
