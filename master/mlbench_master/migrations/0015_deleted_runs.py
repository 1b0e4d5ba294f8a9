"""Runs whose series are left to be deleted in Prometheus."""

from peewee import BooleanField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator


class DeletedRun(Model):
    """The table as it was then."""

    run_id = IntegerField(primary_key=True)
    deleted_at = DoubleField()
    once = BooleanField(default=False)


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the table."""
    with db.bind_ctx([DeletedRun]):
        db.create_tables([DeletedRun])
