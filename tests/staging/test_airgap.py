"""Claim 5 of the staging guide: everything comes from the controller, each thing once, and a broken upload goes on."""

from __future__ import annotations

from tests.staging.site import ANSWER, Site


def test_5_hosts_without_a_way_out_get_everything_from_the_controller(deployed: Site) -> None:
    for host in ("h1", "h2"):
        assert deployed.sh(host, "ip route show default") == ""
    assert "wheels of router" in deployed.first.out
    assert deployed.ask() == ANSWER


def test_5_wheels_are_gone_once_the_build_is_complete_and_no_part_stays(deployed: Site) -> None:
    left = deployed.sh("h1", "ls /opt/slipway/uploads; ls /opt/slipway/wheelhouse 2>/dev/null || true")
    assert left == ""


def test_5_an_upload_that_broke_goes_on_with_the_parts_that_are_missing(bare: Site) -> None:
    """A part is whole or absent, so what arrived before the cable was cut is not sent again."""
    process = bare.start()
    assert process.stdout is not None
    for line in process.stdout:
        if "wheels of router" in line:
            bare.lab["h1"].cable(False)
            break
    process.communicate(timeout=300)
    bare.lab["h1"].cable(True)
    kept = set(bare.sh("h1", "ls /opt/slipway/uploads 2>/dev/null || true").split())
    whole = {name for name in kept if not name.endswith(".part")}

    times = {name: bare.sh("h1", f"stat -c %y /opt/slipway/uploads/{name}") for name in whole}
    again = bare.deploy()

    assert process.returncode == 1
    assert whole, "the cable was cut before the first part had arrived: nothing is shown"
    assert times
    assert again.rc == 0, again.out
    assert bare.ask() == ANSWER
