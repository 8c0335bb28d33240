"""Hardware as declared, as probed, and where the two differ."""

from tests.slipway.plan.site import ONE_HOST, campaign, instance, made, opened, planned, probed, rules


def asked(folder, settings, capture):
    return opened(folder, ONE_HOST, settings).plan({"gpu1": probed(capture)})


def test_a_declaration_that_the_host_keeps_is_fine(tmp_path):
    plan = asked(tmp_path, campaign("0.5.23"), "rtx-pro-6000-x8")

    assert "hardware.differs" not in rules(plan)


def test_a_declaration_that_the_host_breaks_is_an_error_with_both(tmp_path):
    plan = asked(tmp_path, campaign("0.5.23", hardware="8xH200"), "rtx-pro-6000-x8")

    messages = [finding.message for finding in plan.errors if finding.rule == "hardware.differs"]
    assert any("sm_90" in message and "sm_120" in message for message in messages)


def test_hardware_that_nobody_knows_is_an_error_on_cuda(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.23", hardware=None))

    assert "placement.hardware-unknown" in rules(plan, "error")
    assert plan.of("prefill") == ()


def test_an_instance_over_unequal_hosts_is_planned_by_the_weakest_gpu(tmp_path):
    groups = {"unified": ["a", "b"], "router": ["a"]}
    settings = campaign("0.5.23", hardware="8xB200", tp=16, nnodes=2)
    result = made(tmp_path, groups, settings, b={"hardware": "8xH200"})

    assert result.evidence.by_name["unified-0"].arch == "sm_90"
    assert result.decided["unified-0"].kind.memory < 150_000


def test_a_cpu_host_needs_no_hardware(tmp_path):
    settings = {**campaign("0.5.13", hardware=None), "worker": {}}
    settings["engine"] = {"version": "0.5.13", "device": "cpu"}
    plan = planned(tmp_path, ONE_HOST, settings)

    assert instance(plan, "prefill-0").gpus == ()
    assert "placement.hardware-unknown" not in rules(plan)


def test_a_split_that_no_engine_starts_with_is_refused_without_a_gpu_too(tmp_path):
    settings = {**campaign("0.5.13", hardware=None), "worker": {"tp": 3}}
    settings["engine"] = {"version": "0.5.13", "device": "cpu"}
    plan = planned(tmp_path, ONE_HOST, settings)

    messages = [finding.message for finding in plan.errors if finding.rule == "memory-layout"]
    assert any("the attention TP 3 must divide 64 heads" in message for message in messages), plan.errors


def test_an_unknown_name_of_hardware_names_the_nearest(tmp_path):
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.23", hardware="8xRTX PRO 600"))

    error = next(finding for finding in plan.errors if finding.rule == "hardware.declaration")
    assert error.subject == "gpu1"
    assert "nearest: 8xRTX-PRO-6000" in error.fix


def test_a_mapping_with_lists_is_read(tmp_path):
    machine = {"gpu": "H200", "count": 8, "rdma": ["mlx5_0"], "driver": "535.10"}
    plan = planned(tmp_path, ONE_HOST, campaign("0.5.23", hardware=machine))

    assert "hardware.declaration" not in rules(plan)
    assert "hardware.driver-old" in rules(plan, "error")


def test_the_simulator_rehearses_a_machine_that_is_not_there(tmp_path):
    settings = {**campaign("0.5.23"), "engine": {"kind": "simulator", "version": "0.5.23"}}
    plan = asked(tmp_path, settings, "no-gpu")

    assert instance(plan, "decode-0").gpus == (4, 5, 6, 7)
    assert "hardware.differs" not in rules(plan)


def test_the_simulator_needs_no_gpu_at_all(tmp_path):
    settings = {**campaign("0.5.23", hardware=None), "engine": {"kind": "simulator", "version": "0.5.23"}}
    plan = asked(tmp_path, settings, "no-gpu")

    assert [one.gpus for one in plan.of("prefill", "decode")] == [(), ()]
