"""Runs are sealed: their archive, and the energy that Prometheus forgets."""

from peewee import BooleanField, Database, DoubleField, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns; runs that have ended are sealed, as far as Prometheus has their samples."""
    migrator.migrate(
        migrator.add_column("run", "energy_joules", DoubleField(null=True)),
        migrator.add_column("run", "archive", TextField(null=True)),
        migrator.add_column("run", "archive_sha256", TextField(null=True)),
        migrator.add_column("run", "archive_problem", TextField(default="")),
        migrator.add_column("run", "sealed_at", DoubleField(null=True, index=True)),
        migrator.add_column("deletion", "archived", BooleanField(default=False)),
    )
