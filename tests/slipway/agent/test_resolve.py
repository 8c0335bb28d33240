"""Locks are resolved once, from what the hosts will install, and say why when they cannot be."""

import hashlib
import zipfile

import pytest

from slipway.agent.resolve import LockError, keep, resolve
from slipway.builds.locking import lock_builds, wanted_by
from slipway.front import open_groups
from tests.slipway.agent.test_build import wheel
from tests.slipway.plan.site import ONE_HOST, campaign, opened

MOONCAKE = "mooncake-transfer-engine-cuda13==0.3.13"


def needing(folder, name, version, *needs):
    """A wheel that asks for others."""
    path = wheel(folder, name=name, version=version)
    with zipfile.ZipFile(path) as archive:
        files = {entry: archive.read(entry).decode() for entry in archive.namelist()}
    files[f"{name}-{version}.dist-info/METADATA"] += "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in files.items():
            archive.writestr(entry, text)
    return path


def line(path, name, version):
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def wheels(tmp_path):
    """thing needs part below 3 and torch; three versions of part, torch with a need of its own."""
    folder = tmp_path / "wheels"
    return folder, {
        "thing": needing(folder, "thing", "1.0", "part<3", "torch==2.11.0"),
        "part1": needing(folder, "part", "1.0"),
        "part2": needing(folder, "part", "2.0"),
        "part3": needing(folder, "part", "3.0"),
        "torch": needing(folder, "torch", "2.11.0", "cuda-things"),
        "cuda": needing(folder, "cuda_things", "13.0"),
    }


def asked(folder, **more):
    return {
        "requirements": ["thing==1.0"], "pins": [], "constraints": [], "dropped": [], "python": "3.12",
        "machine": "x86_64", "glibc": "2.36", "wheelhouse": str(folder), **more,
    }  # fmt: skip


def test_a_lock_has_everything_with_the_hashes_of_what_is_there(wheels):
    folder, of = wheels
    assert resolve(asked(folder)) == (
        line(of["cuda"], "cuda-things", "13.0") + line(of["part2"], "part", "2.0") + line(of["thing"], "thing", "1.0")
        + line(of["torch"], "torch", "2.11.0")
    )  # fmt: skip


def test_constraints_bind_and_install_nothing(wheels):
    folder, of = wheels
    text = resolve(asked(folder, constraints=["part<2", "other==9"]))
    assert line(of["part1"], "part", "1.0") in text
    assert "other" not in text


def test_what_comes_from_elsewhere_is_left_out_and_not_followed(wheels):
    folder, of = wheels
    text = resolve(asked(folder, dropped=["torch"]))
    assert text == line(of["part2"], "part", "2.0") + line(of["thing"], "thing", "1.0")


def test_what_stands_already_is_agreed_with_and_not_followed(wheels):
    folder, of = wheels
    text = resolve(asked(folder, pins=["torch==2.11.0", "part==1.0"]))
    assert text == line(of["thing"], "thing", "1.0")

    with pytest.raises(LockError, match=r"depend on part<3"):
        resolve(asked(folder, pins=["part==3.0"]))
    with pytest.raises(LockError, match=r"part==1.0 and part==2.0"):
        resolve(asked(folder, requirements=[], pins=["part==1.0"], constraints=["part==2.0"]))


def test_an_unsatisfiable_set_gives_the_resolver_s_reason_and_leaves_the_lock(wheels, tmp_path):
    folder, _ = wheels
    path = tmp_path / "locks/k.txt"
    keep(str(path), asked(folder))
    before = path.read_text()

    with pytest.raises(LockError) as error:
        keep(str(path), asked(folder, constraints=["part>=3"]))

    assert "all versions of thing depend on part<3 and part>=3" in str(error.value)
    assert path.read_text() == before


def test_the_plan_s_locks_are_resolved_once_and_the_build_is_named_by_them(tmp_path):
    folder = tmp_path / "wheels"
    engine = needing(folder, "sglang", "0.5.23", "part")
    part = needing(folder, "part", "2.0")
    mooncake = needing(folder, "mooncake_transfer_engine_cuda13", "0.3.13")
    settings = campaign("0.5.23")
    settings["engine"] |= {"python": "3.12", "find_links": str(folder), "extra_packages": [MOONCAKE]}
    settings["engine"]["index_url"] = "file:///nowhere"
    site = opened(tmp_path, ONE_HOST, settings)
    assert site.plan({}).errors == ()
    said = []

    locked = lock_builds(site, {}, said.append)

    before, after = (
        next(b for b in one.plan({}).hosts[0].builds if b.kind == "sglang") for one in (site, locked)
    )  # fmt: skip
    assert said == [f"resolving the lock of sglang==0.5.23, {MOONCAKE} for Python 3.12, once for all hosts"]
    assert (before.locked, after.locked) == (False, True)
    assert before.id != after.id
    first = line(mooncake, "mooncake-transfer-engine-cuda13", "0.3.13")
    assert after.requirements == first + line(part, "part", "2.0") + line(engine, "sglang", "0.5.23")
    needing(folder, "part", "2.1")  # a newer version, or an index that is gone, changes nothing any more
    again = open_groups(tmp_path / "inventory.py", ONE_HOST, {})
    assert lock_builds(again, {}, said.append).plan({}).hosts[0].builds == locked.plan({}).hosts[0].builds
    assert (len(said), wanted_by(again.plan({}))) == (1, {})
