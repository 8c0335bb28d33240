"""A plan is read back from a release as it was, without what changes nothing on a host."""

import json

import pytest

from slipway.converge.compare import release_text
from slipway.converge.recorded import record_texts, wanted_again
from slipway.converge.wanted import wanted_on
from slipway.front import open_inventory, project_root
from slipway.plan.recorded import RecordedError, plan_from

EXAMPLES = sorted((project_root() / "examples").glob("*/inventory.py"))
SECRETS = {"prefill-0": {"HF_TOKEN": "hush"}}


@pytest.mark.parametrize("inventory", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_reads_back_as_it_was_recorded(inventory):
    plan = open_inventory(inventory, {}).plan({})

    again = plan_from(release_text(plan))

    assert [host.name for host in again.hosts] == [host.name for host in plan.hosts]
    assert again.instances == plan.instances
    recorded, read = json.loads(release_text(plan)), json.loads(release_text(again))
    del recorded["decisions"], read["decisions"]
    assert read == recorded


def test_the_files_of_a_release_are_those_it_was_deployed_with_and_secrets_those_of_now():
    more = {"engine.kind": "simulator", "prefill.secret_env": {"HF_TOKEN": {"env": "X"}}}
    plan = open_inventory(project_root() / "inventory.py", more).plan({})
    before = wanted_on(plan, "@local", SECRETS)
    texts = record_texts(before, release_text(plan), [])
    record = json.loads(texts["files.json"])
    for row in record["files"]:
        row["text"] = "" if row["sealed"] else texts[f"files/{row['name']}"] + "# as it was then\n"

    again = wanted_again(plan_from(texts["plan.json"]), "@local", record, SECRETS)

    assert "hush" not in json.dumps(texts)
    assert [file.path for file in again.files] == [file.path for file in before.files]
    assert all(file.text.endswith("# as it was then\n") for file in again.files if not file.sealed)
    assert [file.text for file in again.files if file.sealed] == [file.text for file in before.files if file.sealed]
    assert (again.configs, again.reads, again.marks) == (before.configs, before.reads, before.marks)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "KeyError: 'hosts'"),
        ("no JSON", "JSONDecodeError"),
        ('{"hosts": [{"name": "a"}], "instances": []}', "has no address"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(text, reason):
    with pytest.raises(RecordedError, match="it is no plan that this version can read") as refused:
        plan_from(text)
    assert reason in str(refused.value)
