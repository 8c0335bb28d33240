"""pyinfra with roles/transport.py against real sshd: the right host, quickly, also through a jump host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.staging.lab import Lab
from tests.staging.lab.commands import Done

INVENTORY = """
import json, os
from roles.transport import ssh_data as _ssh_data, connect_kwargs as _connect_kwargs
_asked = json.loads(os.environ["ASKED"])
_extra = {}
if _asked["tempo"]:
    _extra["ssh_paramiko_connect_kwargs"] = _connect_kwargs(*_asked["tempo"])
hosts = [(n, _ssh_data({**_asked["data"], **_extra}, n)) for n in _asked["hosts"]]
"""
# Writes what the live connection is like, seen from inside pyinfra.
DEPLOY = """
import json, os, pathlib, socket, paramiko
from pyinfra import host
from pyinfra.operations import server
found = []
transport = host.connector.client.get_transport()
while True:
    sock = transport.sock
    alive = transport.packetizer._Packetizer__keepalive_interval
    if not isinstance(sock, paramiko.Channel):
        break
    found.append({"through": "channel", "keepalive": alive})
    transport = sock.get_transport()
found.append({"through": "tcp", "keepalive": alive, "peer": sock.getpeername()[0],
              "nodelay": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)})
pathlib.Path(os.environ["REPORT"]).write_text(json.dumps(found))
server.shell(name="Say who", commands=os.environ.get("COMMAND", "hostname; id -un"))
"""


@dataclass
class Controller:
    """A user's checkout in miniature: one inventory, one deploy, and pyinfra to run them."""

    lab: Lab
    folder: Path
    start: Callable[..., object]
    data: dict[str, object]
    hosts: list[str] = field(default_factory=lambda: ["h1"])
    tempo: tuple[int, int] | None = None

    def environment(self, **more: str) -> dict[str, str]:
        asked = json.dumps({"data": self.data, "hosts": self.hosts, "tempo": self.tempo})
        return {"ASKED": asked, "REPORT": str(self.folder / "report"), **more}

    @property
    def files(self) -> tuple[Path, Path]:
        return self.folder / "inventory.py", self.folder / "deploy.py"

    def report(self) -> list[dict[str, object]]:
        """What the deploy saw of its connection."""
        return json.loads((self.folder / "report").read_text())


@pytest.fixture
def controller(lab: Lab, tmp_path: Path, start_pyinfra: Callable[..., object]) -> Controller:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "deploy.py").write_text(DEPLOY)
    data = {"ssh_user": "deploy", "ssh_config_file": str(lab.ssh_config)}
    return Controller(lab, tmp_path, start_pyinfra, data)


@pytest.fixture
def deploy(controller: Controller, run_pyinfra: Callable[..., Done]) -> Callable[[], Done]:
    return lambda: run_pyinfra("-y", "-vvv", *controller.files, env=controller.environment(), timeout=60)


def test_the_connection_has_no_nagle_delay_and_a_keepalive(controller: Controller, deploy: Callable[[], Done]) -> None:
    done = deploy()
    assert done.returncode == 0, done.stdout
    expected = {"through": "tcp", "keepalive": 30, "peer": "10.77.0.11", "nodelay": 1}
    assert controller.report() == [expected]
    assert "[h1] deploy" in done.stdout


def test_a_keepalive_in_the_users_ssh_config_wins(controller: Controller, deploy: Callable[[], Done]) -> None:
    _ssh_config(controller, "Host h1\n  ServerAliveInterval 11\n" + controller.lab.ssh_config.read_text())
    assert deploy().returncode == 0
    assert [c["keepalive"] for c in controller.report()] == [11]


def _ssh_config(controller: Controller, text: str) -> None:
    (controller.folder / "ssh_config").write_text(text)
    controller.data["ssh_config_file"] = str(controller.folder / "ssh_config")


@pytest.fixture
def behind(lab: Lab, controller: Controller) -> Iterator[str]:
    """A network that only the hosts are in; ssh_config reaches h2 there, through h1."""
    addresses = {"h1": "10.78.0.11", "h2": "10.78.0.12"}
    for name, address in addresses.items():
        lab[name].enter("ip", "addr", "add", f"{address}/24", "dev", "eth0")
    known = lab.known_hosts.read_text().replace("h2,", f"{addresses['h2']},h2,")
    (controller.folder / "known_hosts").write_text(known)
    jump = f"Host h2\n  HostName {addresses['h2']}\n  ProxyJump deploy@h1\n"
    config = lab.ssh_config.read_text().replace(str(lab.known_hosts), str(controller.folder / "known_hosts"))
    _ssh_config(controller, jump + config)
    controller.hosts = ["h2"]
    yield addresses["h2"]
    for name, address in addresses.items():
        lab[name].enter("ip", "addr", "del", f"{address}/24", "dev", "eth0")


def test_a_jump_host_leads_to_a_host_without_a_route_and_is_as_quick(
    controller: Controller, deploy: Callable[[], Done], behind: str
) -> None:
    assert "unreachable" in controller.lab.ctl("ip", "route", "get", behind, check=False).stdout
    done = deploy()
    assert done.returncode == 0, done.stdout
    assert "[h2] h2" in done.stdout
    inner, outer = controller.report()
    assert inner == {"through": "channel", "keepalive": 30}
    assert outer == {"through": "tcp", "keepalive": 30, "peer": "10.77.0.11", "nodelay": 1}


def test_a_jump_host_with_an_unknown_key_is_refused(
    controller: Controller, deploy: Callable[[], Done], behind: str
) -> None:
    _forget(controller.folder / "known_hosts", "h1")
    done = deploy()
    assert done.returncode == 1
    assert "No host key for 10.77.0.11 found in known_hosts" in done.stdout


def test_a_jump_host_is_not_trusted_where_ssh_config_does_not_say_so_either(
    controller: Controller, deploy: Callable[[], Done], behind: str
) -> None:
    _forget(controller.folder / "known_hosts", "h1")
    config = (controller.folder / "ssh_config").read_text().replace("StrictHostKeyChecking yes", "")
    (controller.folder / "ssh_config").write_text(config)
    done = deploy()  # pyinfra asks, and nobody is there
    assert done.returncode == 1
    assert "EOF when reading a line" in done.stdout


def _forget(known_hosts: Path, host: str) -> None:
    lines = known_hosts.read_text().splitlines(keepends=True)
    known_hosts.write_text("".join(line for line in lines if f"{host}," not in line))


def test_a_proxy_command_works_too(controller: Controller, deploy: Callable[[], Done]) -> None:
    proxy = f"Host h2\n  ProxyCommand ssh -F {controller.lab.ssh_config} -W %h:%p h1\n"
    _ssh_config(controller, proxy + controller.lab.ssh_config.read_text())
    controller.hosts = ["h2"]
    (controller.folder / "deploy.py").write_text(DEPLOY.partition("found =")[0] + DEPLOY.splitlines()[-1])
    done = deploy()
    assert done.returncode == 0, done.stdout
    assert "[h2] h2" in done.stdout


@pytest.fixture
def known_hosts(lab: Lab, controller: Controller) -> Path:
    """The user's own list of host keys, to spoil."""
    own = controller.folder / "known_hosts"
    own.write_text(lab.known_hosts.read_text())
    controller.data["ssh_known_hosts_file"] = str(own)
    return own


def test_an_unknown_host_is_refused(controller: Controller, deploy: Callable[[], Done], known_hosts: Path) -> None:
    _forget(known_hosts, "h1")
    before = known_hosts.read_text()
    done = deploy()
    assert done.returncode == 1
    assert "No host key for 10.77.0.11 found in known_hosts" in done.stdout
    assert not (controller.folder / "report").exists()
    assert known_hosts.read_text() == before


def test_a_host_with_a_wrong_key_is_refused(deploy: Callable[[], Done], known_hosts: Path) -> None:
    names = known_hosts.read_text().replace("h1,10.77.0.11", "X").replace("h2,10.77.0.12", "h1,10.77.0.11")
    known_hosts.write_text(names)
    done = deploy()
    assert done.returncode == 1
    assert "Host key for 10.77.0.11 does not match" in done.stdout
    assert "ssh-keygen -R 10.77.0.11" in done.stdout


def test_the_inventory_can_be_printed(controller: Controller, run_pyinfra: Callable[..., Done]) -> None:
    shown = run_pyinfra(controller.files[0], "debug-inventory", env=controller.environment())
    assert shown.returncode == 0, shown.stdout
    assert "transport_factory" in shown.stdout


def test_a_connection_that_died_ends_the_run(controller: Controller) -> None:
    controller.tempo = (1, 3)
    command = {"COMMAND": "touch /tmp/started; sleep 600"}
    run = controller.start("-y", *controller.files, env=controller.environment(**command))
    h1 = controller.lab["h1"]
    end = time.monotonic() + 60
    while h1.enter("test", "-e", "/tmp/started", check=False).returncode and time.monotonic() < end:
        time.sleep(0.1)
    h1.cable(plugged=False)
    try:
        output, _ = run.communicate(timeout=60)
    finally:
        h1.cable(plugged=True)
        h1.enter("pkill", "-x", "sleep", check=False)
        h1.enter("rm", "-f", "/tmp/started")
    assert run.returncode == 1
    assert "[h1] Error" in output
