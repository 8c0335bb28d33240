"""Addresses that peers can use, and refusals where they cannot."""

from dataclasses import replace

import pytest

from slipway.hardware import parse
from slipway.placement import Address, Host, endpoint, plan_addresses
from tests.slipway.hardware.captures import capture
from tests.slipway.placement.cases import machine, wired


def pair(first: Host) -> list[Host]:
    return [first, Host("peer", machine("cpu"), address="10.0.0.2")]


CHOSEN = [
    # first host of two -> address, why
    (Host("h1", wired(), address="10.0.0.1"), "10.0.0.1", "configured"),
    (Host("h1", None, address="gpu1.example.net"), "gpu1.example.net", "configured, a name"),
    (Host("h1", None, address="[fd00::7]"), "fd00::7", "configured"),
    (
        Host("h1", wired(("lo", "127.0.0.1"), ("docker0", "172.17.0.1"), ("eth0", "10.0.0.7"), default="eth0")),
        "10.0.0.7",
        "interface eth0, which has the default route",
    ),
    (
        Host("h1", wired(("ens1", "10.1.0.7"), ("eth0", "10.0.0.7"), default="eth0")),
        "10.0.0.7",
        "interface eth0, which",
    ),
    (Host("h1", wired(("eth1", "169.254.1.1"), ("ib0", "10.9.0.7"))), "10.9.0.7", "interface ib0"),
    (Host("h1", wired(("eth0", "fe80::1"), ("eth1", "fd00::9"))), "fd00::9", "interface eth1"),
    (Host("10.0.0.1", None), "10.0.0.1", "the inventory names the host by its address"),
    (Host("h1", parse(capture("rtx-pro-6000-x8"))), "10.20.0.11", "interface eno1, which has the default route"),
]


@pytest.mark.parametrize(("first", "address", "why"), CHOSEN, ids=[str(row[1]) + row[2] for row in CHOSEN])
def test_chosen_among_several_hosts(first, address, why):
    plan = plan_addresses(pair(first))
    assert [finding for finding in plan.findings if finding.severity == "error"] == []
    assert plan.of(first.name) == address
    assert plan.addresses[0].why.startswith(why)


REFUSED = [
    (Host("h1", None, address="0.0.0.0"), "address 0.0.0.0 is the wildcard"),
    (Host("h1", None, address="::"), "address :: is the wildcard"),
    (Host("h1", None, address="127.0.0.1"), "address 127.0.0.1 is loopback"),
    (Host("h1", None, address="::1"), "address ::1 is loopback"),
    (Host("h1", None, address="localhost"), "address localhost is loopback"),
    (Host("h1", None, address="169.254.10.1"), "address 169.254.10.1 is link-local"),
    (Host("h1", None, address="fe80::1%eth0"), "address fe80::1%eth0 is link-local"),
    (Host("h1", None, address="not a name"), "neither an IP address nor a host name"),
    (Host("h1", None), "no routable address is known"),
    (Host("localhost", wired(("lo", "127.0.0.1"))), "no routable address is known"),
    (Host("127.0.0.1", None), "no routable address is known"),
    (Host("h1", wired(("docker0", "172.17.0.1"))), "no routable address is known"),
    (Host("h1", None, address="10.0.0.2"), "address 10.0.0.2 belongs to h1, peer"),
]


@pytest.mark.parametrize(("first", "message"), REFUSED, ids=[row[1] for row in REFUSED])
def test_refused_among_several_hosts(first, message):
    (finding,) = [found for found in plan_addresses(pair(first)).findings if found.severity == "error"]
    assert message in finding.message
    assert "address" in finding.fix


@pytest.mark.parametrize("address", ["", "127.0.0.1", "localhost"])
def test_loopback_is_fine_alone(address):
    plan = plan_addresses([Host("h1", None, address=address)])
    assert plan.findings == ()
    assert plan.of("h1") in ("127.0.0.1", "localhost")


def test_wildcard_is_refused_even_alone():
    assert plan_addresses([Host("h1", None, address="0.0.0.0")]).addresses == ()


def test_alone_says_why():
    assert plan_addresses([Host("h1")]).addresses == (Address("h1", "127.0.0.1", "the deployment has one host"),)


def test_foreign_address_is_warned_of():
    first = Host("h1", wired(("eth0", "10.0.0.7"), default="eth0"), address="203.0.113.5")
    (finding,) = plan_addresses(pair(first)).findings
    assert (finding.severity, finding.rule) == ("warning", "placement.address-foreign")
    assert "found: 10.0.0.7" in finding.message


def test_a_name_is_noted():
    (finding,) = plan_addresses(pair(Host("h1", None, address="gpu1"))).findings
    assert (finding.severity, finding.rule) == ("note", "placement.address-name")


def test_interface_that_is_down_is_passed_over():
    hardware = wired(("eth0", "10.0.0.7"), ("eth1", "10.1.0.7"))
    down = replace(hardware, interfaces=(replace(hardware.interfaces[0], up=False), hardware.interfaces[1]))
    assert plan_addresses(pair(Host("h1", down))).of("h1") == "10.1.0.7"


def test_no_hosts():
    assert plan_addresses([]).addresses == ()


@pytest.mark.parametrize(("address", "text"), [("10.0.0.1", "10.0.0.1:5"), ("fd00::1", "[fd00::1]:5"), ("h1", "h1:5")])
def test_endpoint(address, text):
    assert endpoint(address, 5) == text
