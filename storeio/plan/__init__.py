"""Plans: findings turned into ordered actions, as data that a person reads and ``apply`` carries out.

``model`` is a plan and its actions, with ``digest`` of what they replace; ``rules`` are what each must obey.
``overlay`` and ``contents`` say what names and bytes there would be after some, ``results`` what planning came to,
``outcome`` an apply.
"""

from __future__ import annotations

from storeio.plan.digest import listing_sha256
from storeio.plan.model import Action, Plan, from_json, to_json
from storeio.plan.rules import check_plan
from storeio.verbs import answer_calls

__all__ = ["Action", "Plan", "check_plan", "from_json", "listing_sha256", "to_json"]

answer_calls(__name__)
