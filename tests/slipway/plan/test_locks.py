"""Locks in the plan: what a lock must be, whose hashes count, and what is asked to be resolved."""

import hashlib
import json

from slipway.front import open_groups
from tests.slipway.plan.site import ONE_HOST, campaign, opened

LOCK = "sglang==0.5.13\nxgrammar==0.2.1\n"


def site(folder, text=LOCK, wheels=(), **engine):
    """A plan of an engine with a lock of its own; wheels: file names in its wheelhouse."""
    settings = campaign("0.5.13")
    settings["engine"] |= {"python": "3.12", **engine}
    if text is not None:
        (folder / "engine.txt").write_text(text)
        settings["engine"].setdefault("lock", "engine.txt")
    if wheels:
        (folder / "wheels").mkdir()
        settings["engine"]["wheelhouse"] = "wheels"
    for name in wheels:
        (folder / "wheels" / name).write_text(name)
    opened(folder, ONE_HOST, settings)
    return open_groups(folder / "inventory.py", ONE_HOST, {}).plan({})


def engine_of(plan):
    return next(build for build in plan.hosts[0].builds if build.kind == "sglang")


def errors(plan):
    return {finding.rule: finding.message for finding in plan.findings if finding.severity == "error"}


def sha(name):
    return hashlib.sha256(name.encode()).hexdigest()


def test_hashes_that_a_lock_lacks_are_those_of_the_wheels_that_travel(tmp_path):
    names = ["sglang-0.5.13-cp310-abi3-manylinux_2_34_x86_64.whl", "xgrammar-0.2.1-cp312-cp312-linux_x86_64.whl"]
    plan = site(tmp_path, wheels=[*names, "xgrammar-0.2.1-cp311-cp311-linux_x86_64.whl", "other-1-py3-none-any.whl"])

    build = engine_of(plan)
    assert build.locked
    assert build.requirements == (
        f"sglang==0.5.13 \\\n    --hash=sha256:{sha(names[0])}\nxgrammar==0.2.1 \\\n    --hash=sha256:{sha(names[1])}\n"
    )
    assert sorted(plan.hosts[0].wheels[build.id].entries) == names


def test_a_wheel_that_was_made_anew_makes_another_build(tmp_path):
    names = ["sglang-0.5.13-cp310-abi3-manylinux_2_34_x86_64.whl", "xgrammar-0.2.1-cp312-cp312-linux_x86_64.whl"]
    before = engine_of(site(tmp_path, wheels=names)).id

    (tmp_path / "wheels" / names[1]).write_text("stripped")
    after = engine_of(open_groups(tmp_path / "inventory.py", ONE_HOST, {}).plan({})).id

    assert before != after


def test_what_is_no_lock_is_refused_with_the_reason(tmp_path):
    hashed = f"sglang==0.5.14 --hash=sha256:{'0' * 64}"
    cases = {
        "lock-missing": ("", {"lock": "nowhere.txt"}, "engine.lock nowhere.txt: no such file"),
        "lock-malformed": (
            "sglang>=0.5\n", {}, "engine.lock engine.txt: 'sglang>=0.5' is no NAME==VERSION with hashes"
        ),
        "lock-unhashed": (
            LOCK, {}, "engine.lock engine.txt: sglang==0.5.13, xgrammar==0.2.1 without a hash, and without a wheel in "
            "engine.wheelhouse",
        ),
        "lock-engine": (hashed, {}, "engine.lock engine.txt has sglang==0.5.14"),
        "lock-incomplete": (
            hashed.replace("14", "13"), {"extra_packages": ["nixl-cu13==1.1.0"]},
            "engine.lock engine.txt has no nixl-cu13==1.1.0, which engine.extra_packages asks for",
        ),
    }  # fmt: skip
    for rule, (text, engine, words) in cases.items():
        folder = tmp_path / rule
        folder.mkdir()
        assert errors(site(folder, text, **engine))[rule] == words


def test_a_base_python_brings_torch_and_counts_in_the_id(tmp_path):
    hashed = f"sglang==0.5.13 --hash=sha256:{'0' * 64}\n"
    plan = site(tmp_path, hashed, base_python="/opt/torch/.venv/bin/python3")

    build = engine_of(plan)
    assert (build.base.python, dict(build.base.packages)) == ("/opt/torch/.venv/bin/python3", {"torch": "2.11.0"})
    assert build.base.cuda_majors == (13,)
    assert plan.hosts[0].python == "/opt/torch/.venv/bin/python3"
    other = engine_of(open_groups(tmp_path / "inventory.py", ONE_HOST, {"engine": {"base_python": None}}).plan({}))
    assert other.id != build.id
    assert "base" not in other.inputs()


def test_why_a_gap_is_right_is_recorded_and_makes_no_other_build(tmp_path):
    hashed = f"sglang==0.5.13 --hash=sha256:{'0' * 64}\n"
    plain = engine_of(site(tmp_path, hashed))
    told = engine_of(
        open_groups(
            tmp_path / "inventory.py", ONE_HOST, {"engine": {"pip_check_known": {"sglang": "parts are left out"}}}
        ).plan({})
    )

    assert told.id == plain.id
    assert told.pip_check_known == (("sglang", "parts are left out"),)


def test_constraints_make_a_lock_of_their_own(tmp_path):
    plain = engine_of(site(tmp_path, None))
    bound = json.dumps({"engine": {"constraints": ["numpy<3"]}})
    held = engine_of(open_groups(tmp_path / "inventory.py", ONE_HOST, json.loads(bound)).plan({}))

    assert plain.wants_lock.key != held.wants_lock.key
    assert plain.id != held.id
    assert held.wants_lock.requirements[0] == "sglang==0.5.13"
