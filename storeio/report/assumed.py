"""What files that are made anew are taken to be like where nothing tells, said by whoever makes some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, INDEX, QUEUE_EXT
from storeio.results import INDEX_SHAPE, Setting

if TYPE_CHECKING:
    from storeio.simulate.predicted import Prediction

LENGTHS: Final = {
    CONSUMEQUEUE: "mappedFileSizeConsumeQueue",
    BATCHQUEUE: "mapperFileSizeBatchConsumeQueue",
    QUEUE_EXT: "mappedFileSizeConsumeQueueExt",
}


def assumed_sizes(settings: Iterable[Setting], made: Collection[str], again: str) -> list[str]:
    """Return sentences on what was taken for granted of files that are made.

    Args:
        settings: Of the store.
        made: The directories in which files are made.
        again: The verb that is to be called again if the broker is set otherwise.
    """
    settings = list(settings)
    values = {setting.name: setting.value for setting in settings if setting.is_default}
    told = {setting.name: setting.value for setting in settings if setting.by_lengths}
    shape = {name: values[name] for name in INDEX_SHAPE if name in values} if INDEX in made else {}
    found = [
        f"files in {kind} are made {values[name]} bytes long, the brokers' default: no file tells another length. "
        f"If the broker is set otherwise, {again} again with --conf broker.conf or --set {name}=N."
        for kind, name in LENGTHS.items()
        if kind in made and name in values
    ]
    found += [
        f"files in {kind} are made {told[name]} bytes long, as those that are there are: no names tell it. "
        f"If these were cut off, {again} again with --conf broker.conf or --set {name}=N."
        for kind, name in LENGTHS.items()
        if kind in made and name in told
    ]
    if shape:
        both = " and ".join(f"{name}={value}" for name, value in shape.items())
        sets = " ".join(f"--set {name}=N" for name in shape)
        found.append(
            f"index files are made with {both}, the brokers' default: from no file they can be told. "
            f"If the broker is set otherwise, {again} again with --conf broker.conf or {sets}."
        )
    return found


def assumed_by_start(found: Prediction) -> list[str]:
    """Return what was taken for granted of files that a predicted start makes."""
    made = {path.split("/")[0] for path, file in found.disk.files.items() if file.made and not file.is_dir}
    return assumed_sizes(found.settings, made, "simulate")
