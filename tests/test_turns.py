"""Turns: who calls the system often waits for others who do, and nobody else waits."""

from __future__ import annotations

import threading

import pytest

from storeio import turns
from storeio.turns import MANY, turn


def entered_while_another_has_its_turn(calls: int, patience_s: float) -> bool:
    """Tell whether a block with so many calls is run while a thread is in one with many, for so long."""
    entered = threading.Event()

    def enter() -> None:
        with turn(calls):
            entered.set()

    with turn(MANY):
        thread = threading.Thread(target=enter)
        thread.start()
        early = entered.wait(patience_s)
    thread.join()
    assert entered.is_set()
    return early


def test_few_calls_wait_for_nobody_and_many_do() -> None:
    assert entered_while_another_has_its_turn(MANY - 1, 60)
    assert not entered_while_another_has_its_turn(MANY, 0.1)


def test_an_error_ends_a_turn() -> None:
    with pytest.raises(ValueError, match="damage"), turn(MANY):
        raise ValueError("damage")
    assert not turns._turn.locked()
