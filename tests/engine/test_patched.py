"""A patch on the real engine: on, the running engine shows it; removed, it is gone; each a build of its own."""

import hashlib
import http.client
import json
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.e2e.site import CHECKOUT, Site

pytestmark = [pytest.mark.engine, pytest.mark.full]
DIFF = """\
--- a/python/sglang/srt/entrypoints/openai/protocol.py
+++ b/python/sglang/srt/entrypoints/openai/protocol.py
@@ -71,7 +71,7 @@
     id: str
     object: str = "model"
     created: int = Field(default_factory=lambda: int(time.time()))
-    owned_by: str = "sglang"
+    owned_by: str = "patched"
     root: Optional[str] = None
     parent: Optional[str] = None
     max_model_len: Optional[int] = None
"""


def inventory(folder: Path) -> Path:
    """The default inventory with a series of its own beside it."""
    folder.mkdir()
    for name in ("inventory.py", "deploy.py"):
        shutil.copy(CHECKOUT / name, folder / name)
    for name in ("group_vars", "playbooks"):
        shutil.copytree(CHECKOUT / name, folder / name)
    (folder / "patches").mkdir()
    (folder / "patches/owner.diff").write_text(DIFF)
    row = {
        "id": "owner", "file": "owner.diff", "sha256": hashlib.sha256(DIFF.encode()).hexdigest(),
        "why": "shows that patches run", "releases": "0.5.13..0.5.14",
    }  # fmt: skip
    (folder / "patches/series.yml").write_text(json.dumps({"patches": [row]}))
    return folder


def owner(site: Site) -> str:
    """Who owns the model, as the running decode worker tells."""
    connection = http.client.HTTPConnection("127.0.0.1", site.ports["decode.port"], timeout=30)
    connection.request("GET", "/v1/models")
    with connection.getresponse() as response:
        owned = json.loads(response.read())["data"][0]["owned_by"]
    connection.close()
    return owned


@pytest.fixture
def site(tmp_path):
    root = Path(tempfile.mkdtemp(prefix="slp-", dir="/var/tmp"))
    site = Site("patched", root, 22900, folder=inventory(tmp_path / "site"))
    yield site
    gone = site.destroy()
    shutil.rmtree(root, ignore_errors=True)
    assert gone.rc == 0, gone.out


def test_a_patch_is_in_the_running_engine_and_gone_when_it_is_removed(site):
    on = site.deploy(**{"engine__patches": ["owner"]})
    assert on.rc == 0, on.out
    assert owner(site) == "patched"
    (patched,) = (site.root / "engines").glob("sglang-*")
    recorded = json.loads((patched / "build.json").read_text())["patches"]
    assert [(one["id"], one["state"], one["why"]) for one in recorded] == [
        ("owner", "applied", "shows that patches run")
    ]
    assert json.loads((patched / "flags.json").read_text())["release"] == "0.5.13"
    built = json.loads((patched / "build.json").read_text())
    assert "sglang.srt.entrypoints.openai.protocol" in built["gated"]["imports"]
    assert "mooncake.engine" in built["gated"]["imports"]
    assert built["lock"] == hashlib.sha256((patched / "requirements.txt").read_bytes()).hexdigest()

    off = site.deploy()
    assert off.rc == 0, off.out
    assert owner(site) == "sglang"
    assert len(list((site.root / "engines").glob("sglang-*"))) == 2

    back = site.run("-y", "playbooks/rollback.py")  # the build is there still: a pointer and a restart
    assert (back.rc, owner(site)) == (0, "patched"), back.out
    assert "installing" not in back.out
    assert len(list((site.root / "engines").glob("sglang-*"))) == 2
