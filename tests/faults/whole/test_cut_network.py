import os
import socket
import subprocess
import sys

import pytest

from tests.faults.whole.cut_network import open_to_others


@pytest.mark.slow  # it starts a process
def test_ports_to_which_others_are_connected_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used, socket.create_server(("127.0.0.1", 0)):
        port = used.getsockname()[1]
        connects = f"import socket; c = socket.create_connection(('127.0.0.1', {port})); input()"
        with subprocess.Popen([sys.executable, "-c", connects], stdin=subprocess.PIPE) as other:
            with used.accept()[0]:
                assert open_to_others([os.getpid()]) == {port}
                assert open_to_others([other.pid]) == set()
                assert open_to_others([os.getpid(), other.pid]) == set()  # among themselves
            other.communicate(b"\n")
