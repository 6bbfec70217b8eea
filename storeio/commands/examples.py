"""What people come with and what they type then: groups of verbs, and the calls with which each verb's help begins."""

from __future__ import annotations

from typing import Final

STORE: Final = "/data/rocketmq/store"

# Heading, and the verbs below it with what each is for.
TASKS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    (
        "Find out, nothing is written",
        (
            ("check", "what is wrong with a store: start here"),
            ("simulate", "what a broker's next start would keep, cut, delete and lose"),
            ("inspect", "look at messages, queue units, index entries, bytes"),
            ("diff", "compare two logs, such as a master's and its slave's"),
        ),
    ),
    (
        "Write something new, the store stays as it is",
        (
            ("rebuild", "queues, index and checkpoint from the log, into a new directory"),
            ("salvage", "every message that is intact, into a new store that brokers start on"),
            ("plan", "what would repair the store, as a list to read, keep and apply"),
        ),
    ),
    (
        "Change the store, no broker runs on it",
        (
            ("apply", "carry out a plan; every byte that is replaced is kept"),
            ("undo", "take that back, to the exact old bytes"),
        ),
    ),
    ("For the shell", (("completion", "have bash, zsh or fish complete verbs, options and stores"),)),
)

# By verb: a call, and what it is good for.
EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "check": (
        (f"storeio check {STORE}", "the report; it ends with the next commands"),
        (f"storeio check {STORE} --html report.html", "a page to look at and to pass on"),
        ("storeio check /data/*/store --quiet --json audits.jsonl", "many stores, a line each, all facts as JSON"),
    ),
    "simulate": (
        (f"storeio simulate {STORE} --broker all", "every broker line side by side: which one can be started?"),
        (f"storeio simulate {STORE} --broker 5.3.3", "one version, with every message that it would give up"),
        (f"storeio simulate {STORE} --retention", "what its own cleaning deletes next, and when"),
    ),
    "inspect": (
        (f"storeio inspect {STORE}", "what lies in it"),
        (f"storeio inspect {STORE} --key order-4711", "messages with a key; also --message-id, --unique-key, --tag"),
        (f"storeio inspect {STORE} --topic T --queue 1 --queue-offset 40..60", "messages of a queue"),
        (f"storeio inspect {STORE} --hex 1200", "the bytes at a physical offset, each with its field's name"),
        (f"storeio inspect {STORE} --records --json", "all records, a JSON line each"),
    ),
    "diff": ((f"storeio diff {STORE} /data/slave/store", "where they part, and what each alone holds"),),
    "rebuild": (
        (f"storeio rebuild {STORE} --into /data/rebuilt", "all of it"),
        (f"storeio rebuild {STORE} --into /data/rebuilt --topic T", "the queues of one topic"),
    ),
    "salvage": (
        (f"storeio salvage {STORE} --into /data/saved", "all that is intact"),
        (f"storeio salvage {STORE} --into /data/saved --donor /data/slave/store", "holes filled from a replica"),
        (f"storeio salvage {STORE} --into /data/saved --messages saved.jsonl", "also as lines, for a producer"),
    ),
    "plan": (
        (f"storeio plan {STORE} --out plan.json", "what would repair it; then: storeio apply plan.json"),
        (f"storeio plan {STORE} --out plan.json --topic T", "the queues of one topic alone"),
        (f"storeio plan {STORE} --out plan.json --goal salvage --allow-log", "a damaged log made whole in place"),
    ),
    "apply": (
        (f"storeio apply plan.json {STORE}", "do it"),
        (f"storeio apply --resume {STORE}", "finish one that was interrupted"),
    ),
    "undo": ((f"storeio undo {STORE}", "the newest apply that was not taken back"),),
    "completion": (
        ('eval "$(storeio completion bash)"', "in this shell; in ~/.bashrc or ~/.zshrc (zsh) for all"),
        ("storeio completion fish > ~/.config/fish/completions/storeio.fish", "for fish"),
    ),
}
