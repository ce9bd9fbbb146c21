"""Takes lines from a socket into a file, as iocLogServer does: lines.py PORT FILE."""

import socket
import sys

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server, open(sys.argv[2], "wb", 0) as file:
    connection, _ = server.accept()
    while data := connection.recv(65536):
        file.write(data)
