"""Every example is sound, says how far it was proven, and plans as recorded."""

import json
import re
import shutil

import pytest

from slipway.cli import main
from slipway.front import open_inventory
from slipway.plan.diff import diff_lines
from slipway.report import plan_lines
from tests.examples.golden import GOLDEN, ROOT, inventories, plan_of, recorded, stable
from tests.slipway.plan.site import flags

NAMES = [name for name in inventories() if name != "default"]
STATUS = re.compile(r"^Status: (planned only|run on hardware|run without a GPU)\b", re.MULTILINE)
V4 = ROOT / "examples/deepseek-v4-flash-rtx-pro-6000"


def readme(name):
    path = ROOT / "examples" / name / "README.md"
    return path.read_text() if path.is_file() else ""


@pytest.mark.parametrize("name", inventories())
def test_the_plan_is_as_recorded(name):
    text = recorded(plan_of(inventories()[name]))
    path = GOLDEN / f"{name}.json"
    assert path.is_file(), "python -m tests.examples.golden records it"

    difference = diff_lines(json.loads(path.read_text()), json.loads(text))
    assert difference == [], "if it is meant: python -m tests.examples.golden"
    assert text == path.read_text(), "reasons or findings changed; if it is meant: python -m tests.examples.golden"


def test_nothing_else_is_recorded():
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(inventories())


@pytest.mark.parametrize("name", inventories())
def test_check_has_no_error(name, capsys):
    assert main(["check", "--declared", str(inventories()[name])]) == 0
    assert " 0 error(s)" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_says_how_far_it_was_proven_and_what_to_edit(name):
    assert STATUS.search(readme(name)), f"examples/{name}/README.md needs a line `Status: planned only` or the like"
    assert "Edit:" in readme(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_list_of_examples_has_it_with_its_status(name):
    found = STATUS.search(readme(name))
    (row,) = [line for line in (ROOT / "examples/README.md").read_text().splitlines() if f"[{name}]" in line]
    assert found and found[1] in row


@pytest.mark.parametrize("name", NAMES)
def test_a_warning_is_explained_in_the_readme(name):
    warned = {finding.rule for finding in plan_of(inventories()[name]).findings if finding.severity == "warning"}
    assert [rule for rule in sorted(warned) if f"`{rule}`" not in readme(name)] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_without_scrolling_much(name):
    lines = plan_lines(plan_of(inventories()[name]))
    before_commands = next(index for index, line in enumerate(lines) if " command: " in line)
    assert before_commands < 90


@pytest.mark.parametrize("facts", sorted(path.name for path in (ROOT / "examples/facts").iterdir() if path.is_dir()))
def test_small_files_are_those_that_the_tests_of_reading_are_about(facts):
    for path in (ROOT / "examples/facts" / facts).iterdir():
        assert path.read_bytes() == (ROOT / "tests/data/checkpoints" / facts / path.name).read_bytes()


def test_the_campaign_plans_on_its_first_release_too(tmp_path):
    shutil.copytree(V4, tmp_path / "v4")
    shutil.copy(V4 / "variants/0.5.13.yml", tmp_path / "v4/group_vars/all.yml")
    plan = open_inventory(tmp_path / "v4/inventory.py", {}).plan({})

    # the patch itself is fetched by `slipway patch add`, which the README says
    assert {finding.rule for finding in plan.findings if finding.severity != "note"} <= {"patch-unknown"}
    assert flags(plan, "decode-0")["--moe-runner-backend"] == "marlin"
    assert flags(plan, "decode-0")["--cuda-graph-max-bs"] == "64"


def test_the_campaign_without_the_patch_is_refused(tmp_path):
    shutil.copytree(V4, tmp_path / "v4")
    text = (V4 / "variants/0.5.13.yml").read_text()
    (tmp_path / "v4/group_vars/all.yml").write_text(re.sub(r"  patches: .*\n", "", text))
    plan = open_inventory(tmp_path / "v4/inventory.py", {}).plan({})

    assert {finding.rule for finding in plan.errors} == {"quant-misread"}


def test_ranks_of_the_example_over_two_hosts():
    plan = plan_of(inventories()["kimi-k2-int4-h200"])

    ranks = [flags(plan, name) for name in ("unified-0", "unified-0-rank1")]
    assert [rank["--node-rank"] for rank in ranks] == ["0", "1"]
    assert {rank["--dist-init-addr"] for rank in ranks} == {"10.77.30.11:20000"}


def test_a_recorded_plan_carries_no_path_of_a_machine():
    assert stable({"a": [str(ROOT / "models"), "simulator-0123456789ab"]}) == {
        "a": ["CHECKOUT/models", "simulator-AGENT"]
    }
    for path in GOLDEN.glob("*.json"):
        assert str(ROOT) not in path.read_text()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "staging"])  # its simulator is named by its sources
def test_diff_with_the_recorded_plan(name, capsys):
    assert main(["plan", "--declared", str(inventories()[name]), "--diff", str(GOLDEN / f"{name}.json")]) == 0
    assert "nothing differs" in capsys.readouterr().out
