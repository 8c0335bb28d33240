"""The SSH settings that hosts get: what is filled in, and what of the user's is honoured."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from pyinfra.api.exceptions import PyinfraError

from roles.transport import connect_kwargs, ssh_data

STRICT = "ssh_strict_host_key_checking"
KWARGS = "ssh_paramiko_connect_kwargs"


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a real TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without ~/.ssh."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _config(folder: Path, text: str) -> dict[str, str]:
    """Host data that names an ssh_config with this text."""
    file = folder / "ssh_config"
    file.write_text(text)
    return {"ssh_config_file": str(file)}


def test_the_connection_sends_at_once_keeps_alive_and_notices_a_dead_peer(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    near, _ = connection
    transport = connect_kwargs(keepalive=7, dead_after=20)["transport_factory"](near)
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
    assert transport.packetizer._Packetizer__keepalive_interval == 7
    transport.close()


def test_a_proxy_command_which_is_no_socket_is_left_alone() -> None:
    proxy = paramiko.ProxyCommand("cat")
    transport = connect_kwargs()["transport_factory"](proxy)
    assert transport.sock is proxy
    transport.close()
    proxy.process.communicate()


def test_unknown_hosts_are_refused_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    assert ssh_data({}, "h1")[STRICT] == "yes"
    assert ssh_data({STRICT: "no"}, "h1")[STRICT] == "no"
    assert ssh_data({STRICT: True}, "h1")[STRICT] == "yes"  # YAML's reading of an unquoted yes
    assert ssh_data({STRICT: False}, "h1")[STRICT] == "no"
    said = _config(tmp_path, "Host h1\n  StrictHostKeyChecking accept-new\nHost h3\n  StrictHostKeyChecking ask\n")
    assert ssh_data(said, "h1")[STRICT] == "accept-new"
    assert ssh_data(said, "h2")[STRICT] == "yes"
    assert ssh_data(said, "h3")[STRICT] == "yes"
    assert ssh_data({**said, STRICT: "no"}, "h1")[STRICT] == "no"


def test_ssh_config_is_looked_up_by_the_name_that_pyinfra_uses(tmp_path: Path) -> None:
    said = _config(tmp_path, "Host gpu\n  StrictHostKeyChecking no\n")
    assert ssh_data(said, "@ssh/gpu")[STRICT] == "no"
    assert ssh_data({**said, "ssh_hostname": "gpu"}, "h1")[STRICT] == "no"


def test_a_wrong_word_names_the_host_and_what_is_allowed() -> None:
    with pytest.raises(PyinfraError, match=r"h1: ssh_strict_host_key_checking: got 'maybe'; must be one of yes"):
        ssh_data({STRICT: "maybe"}, "h1")


def test_an_ssh_config_that_is_not_there_is_an_error_and_a_tilde_is_understood(home: Path) -> None:
    with pytest.raises(PyinfraError, match=r"h1: ssh_config_file: ~/none does not exist"):
        ssh_data({"ssh_config_file": "~/none"}, "h1")
    home.mkdir()
    _config(home, "Host h1\n  StrictHostKeyChecking no\n")
    data = ssh_data({"ssh_config_file": "~/ssh_config"}, "h1")
    assert data["ssh_config_file"] == str(home / "ssh_config")
    assert data[STRICT] == "no"


def test_accept_new_gets_the_folder_that_it_writes_to(home: Path, tmp_path: Path) -> None:
    ssh_data({}, "h1")
    assert not home.exists()
    ssh_data({STRICT: "accept-new"}, "h1")
    assert (home / ".ssh").stat().st_mode & 0o777 == 0o700
    ssh_data({STRICT: "accept-new", "ssh_known_hosts_file": str(tmp_path / "keys/known")}, "h1")
    assert (tmp_path / "keys").is_dir()


def test_the_users_own_connect_arguments_and_connect_timeout_win(tmp_path: Path) -> None:
    said = _config(tmp_path, "Host h1\n  ConnectTimeout 42\nHost h2\n  ConnectTimeout none\n")
    data = ssh_data({**said, KWARGS: {"banner_timeout": 60}}, "h1")
    assert set(data[KWARGS]) == {"transport_factory", "timeout", "banner_timeout"}
    assert data[KWARGS]["timeout"] == 42
    assert set(ssh_data(said, "h2")[KWARGS]) == {"transport_factory"}
    assert ssh_data({**said, KWARGS: {"timeout": 3}}, "h1")[KWARGS]["timeout"] == 3


def test_other_data_stays_and_other_connectors_are_left_alone() -> None:
    assert ssh_data({"ssh_port": 2222}, "h1")["ssh_port"] == 2222
    assert ssh_data({"tp": 8}, "@local") == {"tp": 8}
