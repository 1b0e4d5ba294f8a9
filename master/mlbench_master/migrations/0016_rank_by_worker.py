"""Each poll looks for the rank of a worker, in a run that may have a thousand."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the index."""
    migrator.migrate(migrator.add_index("rank", ("run_id", "worker")))
