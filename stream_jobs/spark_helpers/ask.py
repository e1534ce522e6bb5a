"""`worker_python -m MODULE` where the driver's server of helpers is up: has it fork a process that
does it as this one would, and ends as that one ends. Where it does not answer, Python does it.

It imports little: to start fast is what it is for.
"""

import array
import marshal
import os
import socket
import sys

VARIABLE = "HEADRACE_HELPERS"
STREAMS = 3  # standard input, output and error
LENGTH_BYTES = 4


def main(arguments: list[str]) -> int:
    """`-m`, the module, and what is for it."""
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(os.environ[VARIABLE])
            send(server, arguments[1:])
        except OSError:
            os.execv(sys.executable, [sys.executable, *arguments])
        try:
            code = server.recv(1)
        except OSError:  # it has ended, and its helpers with it
            code = b""
    return code[0] if code else 1


def send(server: socket.socket, arguments: list[str]) -> None:
    """The module first. With all by which the other one can pass for this process."""
    words = [os.fsencode(word) for word in arguments]
    told = marshal.dumps((words, dict(os.environb), os.getcwdb()))  # noqa: PTH109
    streams = array.array("i", range(STREAMS))
    length = len(told).to_bytes(LENGTH_BYTES, "big")
    server.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(told)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # nothing is to be tidied up
