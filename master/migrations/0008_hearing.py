"""How long the master has heard its agents; and indexes by which what goes on is found at once."""

from peewee import BigIntegerField, Database, IntegerField, Model
from playhouse.migrate import SchemaMigrator


class Hearing(Model):
    """The new table."""

    id = IntegerField(primary_key=True)
    seconds = BigIntegerField()
    since = BigIntegerField()


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the table, the column and the indexes."""
    migrator.migrate(
        migrator.add_column("worker", "heard", BigIntegerField(default=0)),
        migrator.add_index("run", ("finished_at",), False),
    )
    with db.bind_ctx([Hearing]):
        db.create_tables([Hearing])
    db.execute_sql('CREATE INDEX "stream_waiting" ON "stream" ("name") WHERE "delivered" < "size"')
