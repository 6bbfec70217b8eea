"""Settings: what is given, what files tell, what is assumed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import golden_data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.config import (
    Given,
    given_settings,
    infer_config,
    parse_delays_ms,
    read_broker_conf,
)
from storeio.errors import UsageError
from storeio.file_sizes import infer_size
from storeio.format import batchqueue, consumequeue, index
from storeio.paths import COMMITLOG, CONSUMEQUEUE, StoreFile, describe, file_name
from storeio.scan import Listing, list_store
from storeio.settings import declared, default, log_elsewhere
from storeio.walk import DEFAULT_DELAYS_MS

GIB = 1 << 30


def segments(*files: tuple[int, int], directory: str = COMMITLOG) -> list[StoreFile]:
    """Return files of one directory from (base offset, length)."""
    return [describe(f"{directory}/{file_name(base)}", size) for base, size in files]


def size_of(*files: tuple[int, int]) -> int:
    """Return the segment size that these files speak for."""
    return infer_size(segments(*files), GIB, 1)[0]


@pytest.mark.parametrize("name", golden_data.STORES)
def test_recorded_stores_tell_their_sizes(name: str) -> None:
    config = infer_config(list_store(golden_data.store(name)))
    options = golden_data.options(name)
    assert config.commitlog_file_bytes == options["clFile"]
    assert config.queue_file_bytes == options["cqEntries"] * consumequeue.UNIT.itemsize
    assert config.batch_file_bytes == 300_000 * batchqueue.UNIT.itemsize
    assert config.ext_file_bytes == options.get("cqExtFile", 48 << 20)
    assert config.index_slots is None
    assert config.index_units is None
    assert {s.source.split()[0] for s in config.settings} <= {"inferred", "default"}


@pytest.mark.parametrize("name", golden_data.CASES)
def test_damaged_stores_tell_their_sizes(name: str) -> None:
    """Where a kind has any file left, no recorded damage hides its size."""
    base = golden_data.base_of(name)
    options = golden_data.options(base)
    listing = list_store(golden_data.store(base))
    for case in golden_data.cases(name):
        after = edited(listing, case["edits"])
        config = infer_config(after)
        if after.of_kind(COMMITLOG):
            assert config.commitlog_file_bytes == options["clFile"], case["id"]
        if after.of_kind(CONSUMEQUEUE):
            assert config.queue_file_bytes == options["cqEntries"] * 20, case["id"]


def edited(listing: Listing, edits: list[golden_data.Edit]) -> Listing:
    """Return the listing as the edits leave it, without touching a file."""
    sizes = {f.path: f.size for f in listing.files if not f.is_dir}
    for kind, path, *arguments in edits:
        if kind == "rmtree":
            sizes = {p: size for p, size in sizes.items() if not p.startswith(f"{path}/")}
        elif kind == "rename":
            sizes[arguments[0]] = sizes.pop(path)
        elif kind == "delete":
            del sizes[path]
        elif kind in ("truncate", "create"):
            sizes[path] = arguments[0]
        elif kind == "write":
            sizes[path] = max(sizes.get(path, 0), arguments[0] + len(arguments[1]) // 2)
    return Listing(listing.root, tuple(describe(path, size) for path, size in sorted(sizes.items())))


def test_truncated_files_are_outvoted() -> None:
    assert size_of((0, 65536), (65536, 30000), (131072, 65536)) == 65536
    assert size_of((0, 65536), (65536, 30000)) == 65536
    assert size_of((0, 0), (65536, 0), (131072, 0)) == 65536
    assert size_of((0, 1000), (65536, 2000), (131072, 3001)) == 65536


def test_renamed_file_is_outvoted() -> None:
    assert size_of((0, 65536), (65536, 65536), (140000, 65536)) == 65536


def test_gap_is_no_size() -> None:
    assert size_of((0, 65536), (65536, 65536), (262144, 65536)) == 65536


def test_single_file() -> None:
    assert size_of((0, 65536)) == 65536, "a size that a person would set"
    assert size_of((0, GIB)) == GIB
    assert size_of((0, 700_000_001)) == GIB, "a truncated segment of the default size"
    assert size_of((3 * 65536, 65536)) == 65536
    assert size_of((3 * 65536, 20001)) == 65536, "its name is a multiple of the size"
    assert size_of((5 * GIB, 0)) == GIB
    assert size_of((0, 0)) == GIB
    assert size_of((0, 3 * GIB)) == GIB, "longer than any file that a broker makes"


def test_queue_sizes_are_whole_units() -> None:
    files = segments((0, 4001), directory="consumequeue/t/0") + segments((0, 4000), directory="consumequeue/t/1")
    assert infer_size(files, 6_000_000, 20) == (4000, "inferred from 1 of 2 files", False)


def test_names_of_different_queues_are_no_neighbours() -> None:
    files = segments((0, 4000), (4000, 4000), directory="consumequeue/t/0")
    files += segments((400_000, 4000), directory="consumequeue/t/1")
    assert infer_size(files, 6_000_000, 20) == (4000, "inferred from 3 files", True)


def test_files_that_are_gone_do_not_make_others_longer() -> None:
    files = [f for n in range(4) for f in segments(*((at, 1000) for at in (0, 2000, 4000)), directory=f"queue/t/{n}")]
    assert infer_size(files, 6_000_000, 20) == (1000, "inferred from 12 files", False)


def test_of_files_that_were_all_cut_off_alike_the_length_is_in_doubt() -> None:
    names = (0, 1000, 2000, 3000)
    files = [f for n in range(5) for f in segments(*((at, 500) for at in names), directory=f"consumequeue/t/{n}")]
    assert infer_size(files, 6_000_000, 20) == (500, "inferred from 20 files", False)
    files = [f for n in range(5) for f in segments((0, 500), directory=f"consumequeue/t/{n}")]
    assert infer_size(files, 6_000_000, 20) == (500, "inferred from 5 files", False)
    assert size_of((0, 500), (500, 500), (2000, 500), (2500, 500)) == 500, "two files are missing"


def test_files_that_were_cut_off_anywhere_tell_no_size() -> None:
    """Two of them have one length by chance."""
    lengths = [600, 600, 20, 40, 980, 1200, 1440, 2000, 300, 60]
    files = [f for n, size in enumerate(lengths) for f in segments((0, size), directory=f"consumequeue/t/{n}")]
    assert infer_size(files, 6_000_000, 20) == (6_000_000, "default", True)
    files += segments((4000, 320), directory="consumequeue/t/10")
    assert infer_size(files, 6_000_000, 20)[:2] == (4000, "inferred from the names of 11 files")


@pytest.mark.parametrize(("longer", "others"), [(10, 11), (7, 14), (8, 3), (3, 3)])
def test_a_longer_size_wins_where_a_file_of_it_holds_something_behind_the_other(longer: int, others: int) -> None:
    """The others were cut off; with nothing there these were lengthened, or may have been."""
    lengths = [4000] * longer + [1000] * others
    files = [f for n, size in enumerate(lengths) for f in segments((0, size), directory=f"consumequeue/t/{n}")]
    asked: list[tuple[str, int]] = []

    def holds(file: StoreFile, position: int) -> bool:
        asked.append((file.path, position))
        return file.path.startswith("consumequeue/t/2/")

    sizes = [infer_size(files, 6_000_000, 20, reaches)[0] for reaches in (holds, lambda file, position: False)]
    assert sizes == [4000, 4000 if longer >= others else 1000]
    assert {position for _, position in asked} <= {1000}


@pytest.mark.parametrize("cut", [True, False])
def test_what_files_hold_tells_whether_others_were_cut_off(cut: bool, tmp_path: Path) -> None:
    root = golden_data.copy_of("ext-5.3.3", tmp_path / "store")
    queues = sorted(path for path in (root / "consumequeue").glob("*/*/0*"))
    for path in queues[::2] if cut else queues[::3]:
        with path.open("r+b") as file:
            file.truncate(1000 if cut else 8000)
    assert infer_config(list_store(root)).queue_file_bytes == 4000


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**40)), max_size=12),
    st.sampled_from([1, 20, 46]),
)
def test_size_is_never_zero_and_whole(files: list[tuple[int, int]], unit: int) -> None:
    listed = [StoreFile(f"commitlog/{base}", COMMITLOG, size, base) for base, size in sorted(files)]
    size, source, _ = infer_size(listed, 300 * unit, unit)
    assert size > 0
    assert size % unit == 0
    assert source


def test_given_settings_win_and_name_their_source() -> None:
    listing = Listing("/s", tuple(segments((0, 65536), (65536, 65536))))
    conf = "brokerName=a\nmappedFileSizeCommitLog = 1024\nmaxIndexNum=800\nmessageIndexEnable=FALSE\n"
    config = infer_config(
        listing, given_settings(conf, "/etc/b.conf", ["mappedFileSizeCommitLog=2048", "maxHashSlotNum=200"])
    )
    sources = {s.name: (s.value, s.source) for s in config.settings}
    assert config.commitlog_file_bytes == 2048
    assert sources["mappedFileSizeCommitLog"] == ("2048", "--set")
    assert sources["maxIndexNum"] == ("800", "/etc/b.conf")
    assert (config.index_slots, config.index_units, config.index_enabled) == (200, 800, False)
    assert "brokerName" not in sources


def test_plain_mapping_is_enough() -> None:
    config = infer_config(Listing("/s", ()), {"enableMultiDispatch": "true"})
    assert config.multi_dispatch is True
    assert config.lmq is None
    assert config.settings[-1].source == "given"


def test_queue_file_size_is_rounded_up_to_units() -> None:
    assert infer_config(Listing("/s", ()), {"mappedFileSizeConsumeQueue": "1001"}).queue_file_bytes == 1020


def test_config_travels_to_workers() -> None:
    config = infer_config(Listing("/s", ()), given_settings("a=b", sets=["enableLmq=true"]))
    assert pickle.loads(pickle.dumps(config)) == config
    sent: Given = pickle.loads(pickle.dumps(given_settings("", sets=["enableLmq=true"])))
    assert (sent, sent.source("enableLmq")) == ({"enableLmq": "true"}, "--set")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("mappedFileSizeCommitlog=1", "did you mean mappedFileSizeCommitLog"),
        ("nonsense=1", "unknown setting 'nonsense'"),
        ("mappedFileSizeCommitLog", "not of the form key=value"),
        ("mappedFileSizeCommitLog=1g", "mappedFileSizeCommitLog='1g'"),
        ("mappedFileSizeCommitLog=0", "mappedFileSizeCommitLog=0"),
        ("maxIndexNum=2147483648", "maxIndexNum"),
        ("messageIndexEnable=yes", "messageIndexEnable"),
        ("messageDelayLevel=1s  5s", "messageDelayLevel"),
    ],
)
def test_bad_set_is_named(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named.replace("'", ".")):
        given_settings(sets=[text])


def test_bad_value_in_mapping_is_named() -> None:
    with pytest.raises(UsageError, match="maxIndexNum"):
        infer_config(Listing("/s", ()), {"maxIndexNum": "many"})


def test_broker_conf_values_that_brokers_skip() -> None:
    config = infer_config(Listing("/s", ()), given_settings("mappedFileSizeCommitLog=1g", "b.conf"))
    assert config.commitlog_file_bytes == GIB
    assert config.settings[0].source == "default; b.conf has '1g', which brokers cannot read and skip"
    with pytest.raises(UsageError, match=r"b\.conf: mappedFileSizeCommitLog=0"):
        given_settings("mappedFileSizeCommitLog=0", "b.conf")


def test_properties_syntax() -> None:
    text = (
        "# comment = 1\n ! comment\n\n a = 1 \nb:2\nc 3\r\n"
        "d\\ e=\\u0041\\t\\=\\q\\\\\rf = one,\\\n   two\\\r\n # three\n"
        "g\n=h\na=last\ni\\:j\\=k=l=m\ntail=x\\"
    )
    assert read_broker_conf(text) == {
        "a": "last",
        "b": "2",
        "c": "3",
        "d e": "A\t=q\\",
        "f": "one,two# three",
        "g": "",
        "": "h",
        "i:j=k": "l=m",
        "tail": "x",
    }
    with pytest.raises(UsageError, match="escape"):
        read_broker_conf("a=\\u00g0")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    try:
        assert all(isinstance(value, str) for value in read_broker_conf(text).values())
    except UsageError as error:
        assert "\\u" in text, error


def test_delay_levels() -> None:
    assert parse_delays_ms("1s 2m 3h 1d") == (0, 1000, 120_000, 10_800_000, 86_400_000)
    assert parse_delays_ms("5s  ") == (0, 5000), "Java's split drops what is empty at the end"
    assert parse_delays_ms("-1s +2s") == (0, -1000, 2000)
    for bad in ("", " 1s", "1s  2s", "1", "s", "1S", "1.5s", "1s,2s"):
        with pytest.raises(ValueError, match="messageDelayLevel"):
            parse_delays_ms(bad)


def test_defaults_agree_with_the_code_that_uses_them() -> None:
    config = infer_config(Listing("/s", ()))
    assert config.delays_ms == DEFAULT_DELAYS_MS
    assert int(default("maxHashSlotNum")) == index.DEFAULT_SLOTS
    assert int(default("maxIndexNum")) == index.DEFAULT_UNITS
    assert (config.commitlog_file_bytes, config.queue_file_bytes) == (GIB, 6_000_000)
    assert (config.batch_file_bytes, config.ext_file_bytes) == (13_800_000, 48 << 20)


def test_every_declared_setting_is_whole() -> None:
    for name, row in declared().items():
        assert set(row) - {"followed", "least"} == {"default", "type", "source", "means"}, name
        assert default(name) in row.get("followed", [default(name)])
        assert row["type"] in ("size", "int", "flag", "text", "levels"), name
        assert given_settings(sets=[f"{name}={default(name)}"])[name] == default(name)


def test_names_that_no_broker_has_are_told_and_others_are_not() -> None:
    conf = "brokerName=a\nlistenPort=1\nmapedFileSizeCommitLog=1\nENABLELMQ=true\nabortFile=/x\nmyOwn=2\n"
    told = given_settings(conf, "b.conf")
    assert told == {}
    found = {s.name: (s.value, s.source) for s in infer_config(Listing("/s", ()), told).settings}
    assert "brokerName" not in found
    assert found["mapedFileSizeCommitLog"][0] == "1"
    assert found["mapedFileSizeCommitLog"][1].endswith("and skip it; did you mean mappedFileSizeCommitLog?")
    assert found["ENABLELMQ"][1].endswith("did you mean enableLmq?")
    assert found["mappedFileSizeCommitLog"] == (str(GIB), "default")
    names = [note.partition(":")[0] for note in told.notes]
    assert names == ["mapedFileSizeCommitLog", "ENABLELMQ", "abortFile, myOwn"]
    sent: Given = pickle.loads(pickle.dumps(told))
    assert sent.notes == told.notes


def test_a_value_that_brokers_cannot_read_is_told_whatever_the_setting() -> None:
    told = given_settings("fileReservedTime=3d\n", "b.conf")
    found = {s.name: (s.value, s.source) for s in infer_config(Listing("/s", ()), told).settings}
    assert found["fileReservedTime"] == ("72", "default; b.conf has '3d', which brokers cannot read and skip")
    assert told.notes == ["fileReservedTime: b.conf has '3d', which brokers cannot read and skip"]


def test_a_file_that_is_no_broker_conf_is_not_told_name_by_name() -> None:
    told = given_settings("\n".join(f"{'x' * 5000}{i} = 1" for i in range(10_000)))
    assert len(told.unknown) == 20


def test_a_setting_that_nothing_here_depends_on_is_not_called_unknown() -> None:
    with pytest.raises(UsageError, match="brokers have it, but nothing here depends on it"):
        given_settings(sets=["brokerName=a"])


@pytest.mark.parametrize(
    ("conf", "elsewhere"),
    [
        ("storePathCommitLog=/data/store/commitlog\nstorePathRootDir=/data/store", ""),
        ("storePathCommitLog=/data/store/commitlog/\nstorePathRootDir=/data/store/", ""),
        ("storePathCommitLog=/data/copy/../copy/commitlog", ""),
        ("storePathRootDir=/data/store", ""),
        ("storePathCommitLog=/other/commitlog\nstorePathRootDir=/data/store", "/other/commitlog"),
        ("storePathCommitLog=/data/store/commitlog,/b\nstorePathRootDir=/data/store", "/data/store/commitlog,/b"),
    ],
)
def test_where_the_log_lies(conf: str, elsewhere: str) -> None:
    config = infer_config(Listing("/data/copy", ()), given_settings(conf))
    assert log_elsewhere("/data/copy", config.settings) == elsewhere


def test_packaged_file_is_the_documented_one() -> None:
    top = Path(__file__).parent.parent
    assert (top / "storeio" / "conf" / "store.toml").read_bytes() == (top / "conf" / "store.toml").read_bytes()


def test_a_setting_may_be_given_as_a_number() -> None:
    given: dict[str, Any] = {"mappedFileSizeCommitLog": 65_536}  # as somebody in a notebook would
    listing = list_store(golden_data.store("base-5.3.3"))
    assert infer_config(listing, given) == infer_config(listing, {"mappedFileSizeCommitLog": "65536"})
