"""What was read of a checkpoint before it was fetched must be what lies there after."""

import json
import shutil

import pytest

from roles.checkpoint.fetch import _agree
from roles.remote import RemoteError
from slipway.checkpoint import inspect, read_folder
from slipway.plan.model import CheckpointPlan
from tests.hub.checkpoint import write_checkpoint

PLACE = CheckpointPlan("org--model", "model", "c0ffee", "/opt/slipway/checkpoints/org--model/c0ffee", None)


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("agree") / "model", shards=1, shard_bytes=1000)


def facts_of(fetched, folder, **changes):
    """The small files only, as a plan reads them, with some keys of config.json changed."""
    folder.mkdir()
    for path in fetched.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return inspect(read_folder(folder), "model")


def test_small_files_alone_tell_what_the_whole_checkpoint_is(fetched, tmp_path):
    _agree(facts_of(fetched, tmp_path / "facts"), inspect(read_folder(fetched), "model"), PLACE)


def test_another_checkpoint_than_planned_is_refused_with_what_differs(fetched, tmp_path):
    before = facts_of(fetched, tmp_path / "facts", num_hidden_layers=61)
    with pytest.raises(
        RemoteError, match=r"c0ffee is not what the plan was made for: attention, experts, model differ; run `slipway"
    ):
        _agree(before, inspect(read_folder(fetched), "model"), PLACE)
