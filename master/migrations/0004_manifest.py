"""What a manifest says: the folder of a command, a deadline, and what each rank ran on.

Older runs have no folder and no deadline; what their ranks ran on is not known any more.
"""

from peewee import Database, DoubleField, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "working_dir", TextField(null=True)),
        migrator.add_column("run", "deadline_seconds", DoubleField(null=True)),
        migrator.add_column("rank", "machine", TextField(null=True)),
    )
