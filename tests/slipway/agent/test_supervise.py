"""A program of supervisord is stopped by asking once and looking, never by a call that waits within supervisord."""

import json
import socketserver
import subprocess
import sys
import threading
from xmlrpc.server import SimpleXMLRPCDispatcher, SimpleXMLRPCRequestHandler

import pytest

from slipway.agent import supervise


class Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ("/RPC2", "/")
    disable_nagle_algorithm = False  # there is none on a Unix socket

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass


class Daemon(socketserver.ThreadingUnixStreamServer, SimpleXMLRPCDispatcher):
    """What supervisord answers while a program drains for three looks. calls: what it was asked."""

    daemon_threads, logRequests = True, False  # noqa: N815 - the handler asks for it

    def __init__(self, path):
        SimpleXMLRPCDispatcher.__init__(self)
        socketserver.ThreadingUnixStreamServer.__init__(self, path, Handler)
        self.calls, self.states = [], ["STOPPING", "STOPPING", "STOPPED"]
        self.register_function(self.stop, "supervisor.stopProcess")
        self.register_function(self.info, "supervisor.getProcessInfo")

    def stop(self, *arguments):
        self.calls.append(("stop", *arguments))
        return True

    def info(self, name):
        self.calls.append(("look", name))
        return {"name": name, "statename": self.states.pop(0) if len(self.states) > 1 else self.states[0]}


@pytest.fixture
def daemon(tmp_path):
    server = Daemon(str(tmp_path / "s"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_it_is_asked_not_to_wait_and_looked_at_until_it_has_ended(daemon):
    state = supervise.stop({"name": "decode-0", "control": daemon.server_address}, 10)

    assert state == "STOPPED"
    assert daemon.calls == [("stop", "decode-0", False), *[("look", "decode-0")] * 3]


def test_one_that_does_not_end_is_given_up_in_time_and_one_without_a_daemon_at_once(daemon, tmp_path):
    daemon.states = ["STOPPING"]

    assert supervise.stop({"name": "decode-0", "control": daemon.server_address}, 0.1) == "STOPPING"
    assert supervise.stop({"name": "decode-0", "control": str(tmp_path / "none")}, 10) == ""


def test_the_manager_s_own_commands_come_after_its_end(daemon, tmp_path):
    mark = tmp_path / "mark"
    request = {
        "deployment": "supervise-test",
        "instance": "decode-0",
        "service": {"manager": "supervisor", "name": "decode-0", "control": daemon.server_address},
        "commands": [["touch", str(mark)]],
        "patience_s": 5,
        "tmp": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "slipway.agent.halt"], input=json.dumps(request), capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert mark.exists()
    assert daemon.states == ["STOPPED"]
