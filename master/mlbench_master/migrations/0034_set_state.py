"""Sets have a state, because the controller carries them out."""

from peewee import CharField, Database, IntegerField, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns. Terminals carried out the older sets, which wait to be resumed."""
    migrator.migrate(
        migrator.add_column("runset", "state", CharField(default="stopped")),
        migrator.add_column("runset", "reason", TextField(default="")),
        migrator.add_column("runset", "resumed_after", IntegerField(default=0)),
    )
