"""A Channel Access or PVAccess client that obeys commands, one JSON object per line.

    client.py libca|caproto|p4p PORT[,PORT...] [--user NAME] [--uid NUMBER] [--host NAME] [--address A]
              [--name-server A:PORT] [--base]

Commands on stdin, answers on stdout:

    {"do": "connect", "pv": PV}
    {"do": "put", "pv": PV, "dbr": 0-6, "value": V or [V, ...], "notify": true|false}
                                                     libca: also 35 and 36, which acknowledge alarms; caproto:
                                                     all, also those with status, time and limits
    {"do": "get", "pv": PV}                          the value in the channel's own type
    {"do": "flood", "pv": PV, "count": N}            N puts of 0, 1, 2 ... without callback
    {"do": "repeat", "pv": PV, "to": PV}             libca: subscribes to a PV, and from then on puts each value
                                                     that comes to another one, in the monitor's callback

Every answer has "address" (ip:port of this client's end of the circuit; a channel stays on it until
the end) or "error". A put without callback is followed by a read on the same circuit, so the server
has carried it out when the answer comes.

p4p speaks PVAccess, to the servers that ioc.py --pva has beside those ports: it takes "put" (of a PV, in
its own type) and "get", and knows no "address". It also takes

    {"do": "rpc", "pv": PV, "arguments": {NAME: NUMBER, ...}}    a call; the result's value
    {"do": "monitor", "pv": PV, "stops": true|false}             subscribes, and has got a value; and stops again

--user and --host are what the client claims to be (libca: the user is that of --uid; the host name
is set in a UTS namespace of its own, which needs root). --address is where the servers are, instead
of 127.0.0.1: [::1] for PVAccess over IPv6. With --name-server, p4p asks that server alone, on a circuit.
--base loads EPICS Base's record support, and no database: clients like pvaPy do.
"""

import argparse
import ctypes
import json
import os
import pwd
import socket
import sys
import threading

CLONE_NEWUTS = 0x04000000  # linux/sched.h
TIMEOUT = 20.0


def own_tcp_ends():
    """Local ip:port of each of this process's TCP connections, by remote port."""
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ends = {}
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            columns = line.split()
            if columns[9] in inodes and columns[3] == "01":  # ESTABLISHED
                host, port = columns[1].split(":")
                ip = socket.inet_ntoa(int(host, 16).to_bytes(4, "little"))
                ends[int(columns[2].split(":")[1], 16)] = f"{ip}:{int(port, 16)}"
    return ends


class LibcaClient:
    """EPICS Base's own client library, through pyepics."""

    def __init__(self):
        from epics import ca

        self.ca = ca
        self.ca.initialize_libca()
        self.lib = ca.libca
        self.channels = {}
        self.subscriptions = []

    def channel(self, pv):
        if pv not in self.channels:
            chid = self.ca.create_channel(pv, connect=False, auto_cb=False)
            if not self.ca.connect_channel(chid, timeout=TIMEOUT):
                raise RuntimeError(f"{pv}: no server answers")
            self.channels[pv] = chid
        return self.channels[pv]

    def address(self, pv):
        server = self.ca.host_name(self.channel(pv))
        return own_tcp_ends()[int(server.rsplit(":", 1)[1])]

    # pyepics puts in the channel's native type only, so puts go to libca itself.
    ELEMENTS = [
        ctypes.c_char * 40,
        ctypes.c_int16,
        ctypes.c_float,
        ctypes.c_uint16,
        ctypes.c_uint8,
        ctypes.c_int32,
        ctypes.c_double,
    ]

    def put(self, pv, dbr, value, notify):
        chid = self.channel(pv)
        values = value if isinstance(value, list) else [value]
        # DBR_PUT_ACKT and DBR_PUT_ACKS are 16-bit numbers (db_access.h)
        element = ctypes.c_uint16 if dbr in (35, 36) else self.ELEMENTS[dbr]
        buffer = (element * len(values))()
        for i, one in enumerate(values):
            if dbr == 0:
                buffer[i].value = one.encode()
            else:
                buffer[i] = one
        if notify:
            status = self.put_with_callback(chid, dbr, len(values), buffer)
        else:
            status = self.lib.ca_array_put(dbr, len(values), chid, buffer)
            self.ca.flush_io()
            self.get(pv)
        return status

    def put_with_callback(self, chid, dbr, count, buffer):
        from epics import dbr as types

        answers = []

        @ctypes.CFUNCTYPE(None, types.event_handler_args)
        def answered(args):
            answers.append(args.status)

        self.lib.ca_array_put_callback(dbr, count, chid, buffer, answered, None)
        self.ca.flush_io()
        self.ca.poll(1e-5, 1.0)
        waited = 0.0
        while not answers:
            self.ca.poll(0.01, 1.0)
            waited += 0.01
            if waited > TIMEOUT:
                raise RuntimeError("no answer to the put")
        return answers[0]

    def get(self, pv):
        value = self.ca.get(self.channel(pv), timeout=TIMEOUT)
        return value.tolist() if hasattr(value, "tolist") else value

    def flood(self, pv, count):
        chid = self.channel(pv)
        for i in range(count):
            self.lib.ca_array_put(6, 1, chid, ctypes.byref(ctypes.c_double(i)))
        self.ca.flush_io()
        self.get(pv)

    def repeat(self, pv, to):
        chid, target = self.channel(pv), self.channel(to)
        came = threading.Event()

        def changed(value=None, **_):
            # the first is what the PV had
            if came.is_set():
                self.lib.ca_array_put(6, 1, target, ctypes.byref(ctypes.c_double(value)))
                self.lib.ca_flush_io()
            came.set()

        # what it returns must live as long as the subscription
        self.subscriptions.append((self.ca.create_subscription(chid, callback=changed), changed))
        assert came.wait(TIMEOUT)


class CaprotoClient:
    """caproto: Channel Access written in Python, without EPICS Base."""

    def __init__(self):
        from caproto.threading.client import Context

        self.context = Context(timeout=TIMEOUT)
        self.pvs = {}

    def channel(self, pv):
        if pv not in self.pvs:
            (self.pvs[pv],) = self.context.get_pvs(pv)
            self.pvs[pv].wait_for_connection(timeout=TIMEOUT)
        return self.pvs[pv]

    def address(self, pv):
        ip, port = self.channel(pv).circuit_manager.socket.getsockname()
        return f"{ip}:{port}"

    def put(self, pv, dbr, value, notify):
        values = value if isinstance(value, list) else [value]
        values = [one.encode() if isinstance(one, str) else one for one in values]
        channel = self.channel(pv)
        answer = channel.write(values, data_type=dbr, notify=notify, wait=notify, timeout=TIMEOUT)
        if not notify:
            channel.read(timeout=TIMEOUT)
            return 1
        return answer.status.code_with_severity

    def get(self, pv):
        values = self.channel(pv).read(timeout=TIMEOUT).data
        values = values.tolist() if hasattr(values, "tolist") else list(values)
        values = [v.decode() if isinstance(v, bytes) else v for v in values]
        return values[0] if len(values) == 1 else values

    def flood(self, pv, count):
        channel = self.channel(pv)
        for i in range(count):
            channel.write([float(i)], data_type=6, notify=False, wait=False)
        channel.read(timeout=TIMEOUT)


class P4pClient:
    """p4p: PVAccess."""

    def __init__(self):
        from p4p.client.thread import Context

        self.context = Context("pva", nt=False)
        self.monitors = []

    def address(self, pv):
        return None

    def put(self, pv, dbr, value, notify):
        # The members of a group by their names.
        changes = value if isinstance(value, dict) else {"value": value}
        # Without waiting for processing, as pvput does it; or until the record has processed.
        self.context.put(pv, changes, timeout=TIMEOUT, get=False, wait=notify)
        return 1

    def get(self, pv):
        return self.context.get(pv, timeout=TIMEOUT).value

    def monitor(self, pv, stops):
        came = threading.Event()
        subscription = self.context.monitor(pv, lambda _: came.set())
        self.monitors.append(subscription)
        assert came.wait(TIMEOUT)
        if stops:
            subscription.close()
        return 1

    def rpc(self, pv, arguments):
        from p4p.nt import NTURI

        types = [(name, "d") for name in arguments]
        call = NTURI(types).wrap(pv, kws=arguments)
        return self.context.rpc(pv, call, timeout=TIMEOUT).value


def obey(client, command):
    pv = command["pv"]
    answer = {}
    if command["do"] == "connect":
        client.channel(pv)
    elif command["do"] == "put":
        answer["status"] = client.put(pv, command["dbr"], command["value"], command["notify"])
    elif command["do"] == "get":
        answer["value"] = client.get(pv)
    elif command["do"] == "rpc":
        answer["value"] = client.rpc(pv, command["arguments"])
    elif command["do"] == "monitor":
        answer["monitored"] = client.monitor(pv, command["stops"])
    elif command["do"] == "flood":
        client.flood(pv, command["count"])
    elif command["do"] == "repeat":
        client.repeat(pv, command["to"])
    else:
        raise RuntimeError(f"unknown command {command['do']}")
    answer["address"] = client.address(pv)
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library", choices=["libca", "caproto", "p4p"])
    parser.add_argument("ports")
    parser.add_argument("--user")
    parser.add_argument("--uid", type=int)
    parser.add_argument("--host")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--name-server")
    parser.add_argument("--base", action="store_true")
    args = parser.parse_args()
    if args.base:
        import epicscorelibs.path

        for name in ("Com", "ca", "dbCore"):
            ctypes.CDLL(epicscorelibs.path.get_lib(name), mode=ctypes.RTLD_GLOBAL)

    os.environ["EPICS_CA_ADDR_LIST"] = " ".join(f"{args.address}:{port}" for port in args.ports.split(","))
    os.environ["EPICS_CA_AUTO_ADDR_LIST"] = "NO"
    os.environ["EPICS_CA_SERVER_PORT"] = args.ports.split(",")[0]
    os.environ["EPICS_CA_MAX_ARRAY_BYTES"] = "10000000"
    # ioc.py says where PVAccess is beside Channel Access.
    os.environ["EPICS_PVA_ADDR_LIST"] = " ".join(f"{args.address}:{int(port) + 2000}" for port in args.ports.split(","))
    os.environ["EPICS_PVA_AUTO_ADDR_LIST"] = "NO"
    if args.name_server:
        os.environ["EPICS_PVA_ADDR_LIST"] = ""
        os.environ["EPICS_PVA_NAME_SERVERS"] = args.name_server
    os.environ["EPICS_PVA_BROADCAST_PORT"] = str(int(args.ports.split(",")[0]) + 2000)
    if args.host:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWUTS) != 0:
            sys.exit(f"client.py: --host: {os.strerror(ctypes.get_errno())}; run it as root")
        socket.sethostname(args.host)
    if args.user:
        os.environ["LOGNAME"] = os.environ["USER"] = args.user
    if args.uid is not None:
        # The real user alone: libca asks for that one, and Python still loads what it needs as root.
        os.setresuid(args.uid, -1, -1)
    client = {"libca": LibcaClient, "caproto": CaprotoClient, "p4p": P4pClient}[args.library]()

    # libca claims the real user id's name, caproto what the environment says.
    user = args.user if args.user and args.library == "caproto" else pwd.getpwuid(os.getuid()).pw_name
    print(json.dumps({"user": user, "host": socket.gethostname()}), flush=True)
    for line in sys.stdin:
        try:
            answer = obey(client, json.loads(line))
        except Exception as error:  # whatever it is, the caller has to hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    # No tidy end: libca's exit handlers may wait for servers that are gone.
    os._exit(0)


if __name__ == "__main__":
    main()
