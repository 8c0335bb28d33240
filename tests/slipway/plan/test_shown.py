"""What a person reads: the plan, its differences, its findings."""

import json

from slipway.cli import main
from slipway.finding import Finding
from slipway.plan.diff import diff_lines
from slipway.plan.model import to_json
from slipway.report import finding_lines, gpu_span, plan_lines, table
from tests.slipway.plan.site import ONE_HOST, campaign, planned


def shown(plan, full=False):
    return "\n".join(plan_lines(plan, full))


def test_the_summary_has_hosts_gpus_ports_values_and_memory(tmp_path):
    text = shown(planned(tmp_path, ONE_HOST, campaign("0.5.18")))

    assert "8 x NVIDIA RTX PRO 6000" in text
    assert "prefill-0  gpu1  0-3" in text
    assert "http 30000, bootstrap 8998" in text
    assert "moe_runner_backend               marlin" in text
    assert "table: the engine's pick has no SM12x kernel" in text
    assert "memory [####" in text
    assert text.index("memory [") < text.index("command:")


def test_one_command_of_each_kind_is_shown_and_all_in_full(tmp_path):
    groups = {"prefill": [f"h{i}" for i in range(20)], "decode": ["d"], "router": ["d"]}
    plan = planned(tmp_path, groups, campaign("0.5.18"))

    assert shown(plan).count("command:") == 3
    assert "and 6 more (--full)" in shown(plan)
    assert shown(plan, full=True).count("command:") == 22
    assert "static memory" in shown(plan, full=True)


def test_alike_findings_are_one():
    lines = finding_lines([Finding("a", "note", f"h{i}", "same") for i in range(9)])

    assert lines == ["note: h0, h1, h2, h3 and 5 more: same [a]"]


def test_empty_columns_are_left_out():
    assert table(("A", "B"), [("x", "-"), ("y", "")]) == ["A", "x", "y"]
    assert gpu_span(()) == "-"


def test_a_diff_goes_by_instance_and_flag(tmp_path):
    before = to_json(planned(tmp_path, ONE_HOST, campaign("0.5.18")))
    after = to_json(planned(tmp_path, ONE_HOST, campaign("0.5.23", mem_fraction_static=0.8)))

    assert diff_lines(before, before) == []
    lines = diff_lines(before, after)
    assert "~ instance prefill-0" in lines
    assert "    ~ --moe-runner-backend marlin -> flashinfer_cutlass" in lines
    assert "    ~ --mem-fraction-static 0.9 -> 0.8" in lines
    assert not any("env HOME" in line for line in lines)


def test_a_diff_names_what_came_and_went(tmp_path):
    before = to_json(planned(tmp_path, ONE_HOST, campaign("0.5.18", tp=2)))
    two = to_json(planned(tmp_path, ONE_HOST, campaign("0.5.18", tp=2), decode={"decode": {"instances": 2}}))

    assert "+ instance decode-1" in diff_lines(before, two)
    assert "- instance decode-1" in diff_lines(two, before)


def inventory(folder, settings):
    planned(folder, ONE_HOST, settings)
    (folder / "inventory.py").write_text("".join(f"{group} = {hosts}\n" for group, hosts in ONE_HOST.items()))
    return str(folder / "inventory.py")


def test_the_plan_as_json_is_what_a_release_records(tmp_path, capsys):
    name = inventory(tmp_path, campaign("0.5.18"))
    assert main(["plan", name, "--json"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "plan.json").write_text(text)

    assert json.loads(text)["instances"][0]["name"] == "prefill-0"
    assert main(["plan", name, "--diff", str(tmp_path / "plan.json")]) == 0
    assert "nothing differs" in capsys.readouterr().out


def test_a_file_that_is_no_plan_is_told(tmp_path, capsys):
    name = inventory(tmp_path, campaign("0.5.18"))
    for text in ("[]", "{", '{"hosts": 1}', "null"):
        (tmp_path / "plan.json").write_text(text)
        assert main(["plan", name, "--diff", str(tmp_path / "plan.json")]) == 1
        assert "no recorded plan" in capsys.readouterr().err


def test_check_counts(tmp_path, capsys):
    assert main(["check", inventory(tmp_path, campaign("0.5.13"))]) == 1
    out = capsys.readouterr().out
    assert "error: " in out
    assert "1 host(s), 3 instance(s), 1 error(s)" in out
