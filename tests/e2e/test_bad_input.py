"""What is refused, with what words; and that whatever ran before still runs."""

import shutil
import socket
import subprocess

import pytest

from tests.e2e.conftest import QUESTION
from tests.e2e.site import CHECKOUT, Site, port_here


@pytest.fixture
def unharmed(site):
    """After a refusal every process is the one that ran before, and it still answers."""
    before = site.pids()
    yield site
    assert site.pids() == before
    assert site.answer(QUESTION) == "391"


def refused(done, *words):
    assert done.rc != 0, done.out
    assert "Traceback" not in done.out
    for word in words:
        assert word in done.out, done.out


def test_a_configuration_error_is_told_before_anything_connects(unharmed):
    done = unharmed.deploy(decode__tpp=2)

    refused(done, "--data: decode.tpp: got unknown key", "did you mean tp?")
    assert "Connecting to hosts" not in done.out


def test_a_yaml_error_names_file_and_line(unharmed, tmp_path):
    for name in ("group_vars", "inventory.py"):
        source = CHECKOUT / name
        copy = tmp_path / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    (tmp_path / "group_vars/decode.yml").write_text("decode:\n  tp: [1\n")
    words = unharmed.command("-y", "deploy.py")
    words[words.index(str(CHECKOUT / "inventory.py"))] = str(tmp_path / "inventory.py")

    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)

    assert done.returncode != 0
    assert "group_vars/decode.yml:3: got a YAML syntax error" in done.stdout + done.stderr


def test_a_flag_that_the_release_does_not_have(unharmed):
    done = unharmed.deploy(**{"decode__server_args": {"enable_metricks": True}})

    refused(done, "decode-0: SGLang 0.5.13 has no --enable-metricks", "--enable-metrics", "nothing was changed")


def test_a_choice_that_the_flag_does_not_have(unharmed):
    done = unharmed.deploy(**{"worker__attention_backend": "torch_nativ"})

    refused(done, "torch_nativ", "torch_native", "nothing was changed")


def test_a_port_that_a_foreign_process_holds(unharmed):
    with socket.create_server(("127.0.0.1", port_here(21988))) as server:
        done = unharmed.deploy(decode__port=server.getsockname()[1])

    refused(done, f"port {port_here(21988)} (http) is held by pid", "give decode-0 another port")


def test_two_users_of_one_port(unharmed):
    done = unharmed.deploy(**{"router__metrics_port": unharmed.ports["router.port"]})

    refused(done, str(unharmed.ports["router.port"]), "router", "metrics", "nothing was changed")


def test_a_model_folder_without_a_config(unharmed, tmp_path):
    done = unharmed.deploy(**{"model__path": str(tmp_path)})

    refused(done, "has no config.json", "set model.path")


def test_a_model_folder_that_is_not_there(unharmed):
    done = unharmed.deploy(**{"model__path": "models/none"})

    refused(done, "models/none: no such folder")


def test_a_missing_system_library_without_root_names_the_package():
    from slipway.builds.recipe import recipes
    from slipway.plan.facts import ASSUMED
    from slipway.plan.preflight import missing_packages

    cpu = next(recipe for recipe in recipes() if recipe.name == "sglang-cpu")
    known = {**dict.fromkeys(cpu.system_libraries, "/lib/x"), "libnuma.so.1": None}
    facts = type(ASSUMED)(**{**ASSUMED.__dict__, "known": True, "libraries": known})

    assert missing_packages(facts, cpu) == {"libnuma.so.1": "libnuma1"}


def test_a_weight_file_that_differs_from_its_manifest_is_never_served(unharmed, tmp_path):
    model = tmp_path / "tiny"
    shutil.copytree(CHECKOUT / "models/tiny", model)
    weights = model / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)

    other = Site("other", unharmed.root.with_name("o"), 21800, {"engine.kind": "simulator", "model.path": str(model)})
    done = other.deploy()
    other.destroy()

    refused(done, "model.safetensors")


def test_a_role_without_hosts_is_named(unharmed, tmp_path):
    (tmp_path / "group_vars").mkdir()
    shutil.copy(CHECKOUT / "group_vars/all.yml", tmp_path / "group_vars/all.yml")
    text = (CHECKOUT / "inventory.py").read_text().replace('decode = ["@local"]\n', "")
    (tmp_path / "inventory.py").write_text(text)

    done = subprocess.run(
        [*unharmed.command("--dry")[:1], "--dry", str(tmp_path / "inventory.py"), "deploy.py"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode != 0
    assert "no host in group decode" in done.stdout + done.stderr
