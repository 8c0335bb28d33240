"""What periodic verification is made of under either manager."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.converge.wanted import wanted_on
from slipway.front import open_inventory, project_root
from slipway.plan.facts import ASSUMED

FACTS = type(ASSUMED)(**{**ASSUMED.__dict__, "known": True})


def files(manager: str, every_s: int) -> dict[str, str]:
    """Text of the files of the role verify, by name."""
    data = {"engine.kind": "simulator", "verify.every_s": every_s, "service.manager": manager, "deployment": "d"}
    plan = open_inventory(project_root() / "inventory.py", data).plan({"@local": replace(FACTS, superuser=True)})
    found = [file for file in wanted_on(plan, "@local").files if file.role == "verify"]
    return {file.path.rpartition("/")[2]: file.text for file in found}


@pytest.mark.parametrize("manager", ["systemd", "supervisor"])
def test_none_is_made_where_none_is_wanted(manager: str) -> None:
    assert files(manager, 0) == {}


def test_systemd_has_a_timer_and_a_service_that_can_change_nothing() -> None:
    found = files("systemd", 300)

    assert set(found) == {"slipway-d-verify.service", "slipway-d-verify.timer"}
    service, timer = found["slipway-d-verify.service"], found["slipway-d-verify.timer"]
    assert "OnUnitInactiveSec=300\n" in timer
    for line in (
        "Type=oneshot",
        "User=slipway",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
    ):
        assert f"{line}\n" in service
    assert "ReadWritePaths=/opt/slipway/deployments/d/verify\n" in service
    assert ".pyz periodic /opt/slipway/deployments/d/verify\n" in service
    assert "systemctl" not in service


def test_supervisor_has_a_program_that_looks_for_ever() -> None:
    (text,) = files("supervisor", 300).values()

    assert "[program:slipway-d-verify]" in text
    assert "/verify 300\n" in text
