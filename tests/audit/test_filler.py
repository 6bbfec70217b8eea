"""A broker's filler in front of a queue: sound behind deleted segments, but it hides messages of the segment at 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from rebuilds import settings_of
from storebuilder import StoreBuilder

from storeio import audit, rebuild
from storeio.findings import Finding
from storeio.format import consumequeue

FIRST = 5  # number of the queue's first message
FILLER = consumequeue.PRE_BLANK.tobytes() * FIRST


def found(root: Path, queue: str = "t", *, base: int = 0, lost: int = 0) -> tuple[dict[str, str], list[Finding]]:
    """Return the settings and what is told of the filler of a store in which a broker built a queue from the log.

    The log begins at ``base`` with ``lost`` messages of another queue; each message is sent to ``t``.
    """
    builder = StoreBuilder(root, segment_bytes=16384, base=base, multi_dispatch=True)
    builder.next_offsets[queue, 0] = FIRST
    for topic in ["other"] * lost + ["t"] * 40:
        builder.message(topic, 0, b"x" * 400, lmq=(queue,) if queue != topic == "t" else ())
    builder.close()
    assert (root / "consumequeue" / queue / "0" / f"{0:020d}").read_bytes()[: len(FILLER)] == FILLER
    given = settings_of(builder.settings)
    findings = audit.check(root, given=given).findings
    return given, [finding for finding in findings if finding.code == "CQ_PRE_BLANK"]


def test_it_hides_messages_of_the_segment_at_0_and_a_rebuild_has_none(tmp_path: Path) -> None:
    given, (finding,) = found(tmp_path / "store")
    assert (finding.position, finding.length, finding.count, finding.queue_offset) == (0, len(FILLER), FIRST, 0)
    rebuild(tmp_path / "store", tmp_path / "new", given=given)
    units = (tmp_path / "new" / finding.path).read_bytes()
    assert units[: len(FILLER)] == units[len(FILLER) :][:20] * FIRST


@pytest.mark.parametrize("more", [{"queue": "%LMQ%a"}, {"base": 16384}, {"lost": 60}], ids=str)
def test_elsewhere_it_is_as_brokers_write_it(tmp_path: Path, more: dict[str, object]) -> None:
    given, findings = found(tmp_path / "store", **more)  # type: ignore[arg-type]
    assert not findings
    rebuild(tmp_path / "store", tmp_path / "new", given=given)
    for path in (tmp_path / "new" / "consumequeue").rglob("0" * 20):
        assert path.read_bytes() == (tmp_path / "store" / path.relative_to(tmp_path / "new")).read_bytes()
