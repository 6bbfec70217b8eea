"""Plans: findings turned into ordered actions, as data that a person reads and ``apply`` carries out."""

from __future__ import annotations

from storeio.plan.model import Action, Plan, from_json, to_json

__all__ = ["Action", "Plan", "from_json", "to_json"]
