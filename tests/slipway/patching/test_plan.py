"""Patches in the plan: they count in the build's id; what cannot be applied is a finding before anything is built."""

import json

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
