"""Real brokers and their settings: which names they have, and what those do that a simulated start follows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import golden_data
import pytest
from golden_data import sizes_of

from broker.brokers import VERSIONS, run
from broker.builds import classpath
from storeio.predict.start import simulate
from storeio.settings import broker_names, declared

pytestmark = [pytest.mark.broker, pytest.mark.share(2)]

CLASSES: Final = (
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.common.BrokerConfig",
    "org.apache.rocketmq.remoting.netty.NettyServerConfig",
    "org.apache.rocketmq.remoting.netty.NettyClientConfig",
)
# What MixAll.properties2Object looks for: setters of one value of these types.
SETTER: Final = re.compile(r"void set(\w+)\((?:int|long|double|boolean|float|java\.lang\.String)\);")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_that_brokers_read_is_known(version: str) -> None:
    command = ["javap", "-public", "-cp", classpath(version), *CLASSES]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {match[1][0].lower() + match[1][1:] for match in SETTER.finditer(told)}
    assert len(names) > 150
    assert names <= broker_names()
    assert declared().keys() <= broker_names()


@pytest.mark.parametrize("most", [1, 3, 11, 0, -1])
def test_recovery_goes_back_as_far_as_it_is_set(most: int, tmp_path: Path) -> None:
    name, version = "base-5.5.1", "5.5.1"
    root, options = golden_data.copy_of(name, tmp_path / "store"), golden_data.options(name)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    for gone in ("consumequeue", "index"):
        shutil.rmtree(root / gone)
    given = {**sizes_of(options), "commitLogRecoverMaxNum": str(most)}
    said = simulate(root, broker=version, given=given)
    broker = run(version, root, {**options, "set.commitLogRecoverMaxNum": most}, stop="halt")
    assert not broker.unknown_settings
    assert said.not_simulated == ()
    assert said.outcome.after_start is not None
    assert said.consumers is not None
    queues = {f"{topic}/{queue_id}": ends for (topic, queue_id), ends in broker.queues.items()}
    assert {key: ends[:2] for key, ends in said.outcome.after_start.queues.items()} == queues
    assert said.consumers.messages == len(broker.delivered)
    assert (len(broker.delivered) == 850) == (most not in (1, 3))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_broker_that_writes_past_its_mappings_starts_as_others_do(is_damaged: bool, tmp_path: Path) -> None:
    name, version = "base-5.5.1", "5.5.1"
    damage: golden_data.Edit = [["create", "abort", 0], ["write", f"commitlog/{294912:020d}", 5000, "ff00ff00"]]
    edits = damage if is_damaged else []
    root, options = golden_data.damaged(name, edits, tmp_path / "store"), golden_data.options(name)
    said = simulate(root, broker=version, given={**sizes_of(options), "writeWithoutMmap": "true"})
    broker = run(version, root, {**options, "set.writeWithoutMmap": "true"}, stop="halt")
    assert (broker.unknown_settings, said.not_simulated) == ((), ())
    after = said.outcome.after_start
    assert after is not None
    assert said.consumers is not None
    assert broker.log_range == (after.min_physical_offset, after.max_physical_offset)
    assert said.consumers.messages == len(broker.delivered)
