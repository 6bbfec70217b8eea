"""``storeio inspect``: the command over the functions of this package."""

from __future__ import annotations

import click


@click.command(name="inspect")
@click.argument("store")
def inspect(store: str) -> None:
    """Show what a store holds."""
    click.echo(store)
