"""Patches in the plan: they count in the build's id; what cannot be applied is a finding before anything is built."""

import json
import zipfile

from tests.slipway.plan.site import ONE_HOST, campaign, opened, planned


def engine_build(plan):
    return next(build for build in plan.hosts[0].builds if build.kind == "sglang")


def findings(plan):
    return {finding.rule: finding for finding in plan.findings if finding.severity == "error"}


def replan(folder, settings, edit):
    opened(folder, ONE_HOST, settings)
    path = folder / "patches/series.yml"
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    from slipway.front import open_groups

    return open_groups(folder / "inventory.py", ONE_HOST, {}).plan({})


def test_a_patch_makes_another_build_and_its_reason_does_not(tmp_path):
    plain = engine_build(planned(tmp_path, ONE_HOST, campaign("0.5.13")))
    patched = engine_build(planned(tmp_path, ONE_HOST, campaign("0.5.13", patches=["pr-25820"])))

    def other_why(data):
        data["patches"][0]["why"] = "for another reason"
        return data

    reasoned = engine_build(replan(tmp_path, campaign("0.5.13", patches=["pr-25820"]), other_why))
    assert plain.id != patched.id
    assert patched.id == reasoned.id
    assert "patches" not in plain.inputs()


def test_an_unknown_patch_is_an_error_with_the_nearest_id(tmp_path):
    def renamed(data):
        data["patches"][0]["id"] = "pr-25821"
        return data

    found = findings(replan(tmp_path, campaign("0.5.13", patches=["pr-25820"]), renamed))

    assert found["patch-unknown"].message == "engine.patches names pr-25820; patches/series.yml has pr-25821"
    assert found["patch-unknown"].fix == "did you mean pr-25821?"


def test_a_patch_for_other_releases_is_an_error_with_the_range(tmp_path):
    def ranged(data):
        data["patches"][0]["releases"] = "0.5.13..0.5.14"
        return data

    found = findings(replan(tmp_path, campaign("0.5.18", patches=["pr-25820"]), ranged))

    words = "patch pr-25820 is for SGLang 0.5.13 up to, not including, 0.5.14, not for 0.5.18"
    assert found["patch-release"].message.startswith(words)


def test_a_git_build_needs_the_whole_commit(tmp_path):
    settings = campaign("0.5.18")
    settings["engine"] |= {"git": "https://git.test/sglang.git"}
    assert (
        findings(planned(tmp_path, ONE_HOST, settings))["engine-git"].message
        == "engine.git is set without engine.commit"
    )

    settings["engine"] |= {"commit": "0123456789" * 4}
    build = engine_build(planned(tmp_path, ONE_HOST, settings))
    assert (build.git.commit, build.git.depth) == ("0123456789" * 4, 1)
    assert "sglang==" not in build.requirements


def warnings(plan):
    return {finding.rule: finding for finding in plan.findings if finding.severity == "warning"}


def test_a_patch_that_is_part_of_the_release_can_be_removed_and_from_when_on(tmp_path):
    before = planned(tmp_path, ONE_HOST, campaign("0.5.13", patches=["pr-25820"]))
    after = warnings(planned(tmp_path, ONE_HOST, campaign("0.5.18", patches=["pr-25820"])))

    assert "patch-contained" not in warnings(before)
    assert after["patch-contained"].message == "patch pr-25820 is part of SGLang since 0.5.14, so 0.5.18 holds it"
    assert after["patch-contained"].fix == "remove it from engine.patches for 0.5.14 and later"


def wheeled(folder, content):
    """A plan whose wheelhouse has the release's wheel, with this text where the patch belongs."""
    settings = campaign("0.5.18", patches=["own"])
    settings["engine"]["wheelhouse"] = "wheels"
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels/sglang-0.5.18-cp310-abi3-manylinux_2_34_x86_64.whl", "w") as wheel:
        wheel.writestr("sglang/x.py", content)
    return planned(folder, ONE_HOST, settings)


def test_a_patch_is_tried_on_the_wheel_that_is_here_before_anything_is_built(tmp_path):
    for name in ("fits", "holds", "differs"):
        (tmp_path / name).mkdir()
    assert {"patch-contained", "patch-conflict"}.isdisjoint(
        finding.rule for finding in wheeled(tmp_path / "fits", "a = 1\n").findings
    )
    held = warnings(wheeled(tmp_path / "holds", "a = 2\n"))["patch-contained"]
    assert held.message == "patch own: every hunk of it is in the wheel of SGLang 0.5.18"
    assert held.fix == "remove it from engine.patches for 0.5.18 and later"
    refused = findings(wheeled(tmp_path / "differs", "a = 3\n"))["patch-conflict"].message
    assert "sglang/x.py:1: hunk 1 (line 3 of the diff): expected 'a = 1', found 'a = 3'" in refused
