"""The series that an owner may have, and what was refused beyond them.

Those that there are may go on, however many.
"""

from peewee import CompositeKey, Database, Model, TextField
from playhouse.migrate import SchemaMigrator

_FILL = (
    "INSERT INTO seriesname (owner, metric, rank) SELECT owner, metric, rank FROM series "
    "UNION SELECT owner, metric, rank FROM keptsample WHERE metric != 'malformed'"
)


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the table, with the series of today, and the column."""

    class SeriesName(Model):
        owner = TextField()
        metric = TextField()
        rank = TextField()

        class Meta:
            primary_key = CompositeKey("owner", "metric", "rank")

    with db.bind_ctx([SeriesName]):
        db.create_tables([SeriesName])
    db.execute_sql(_FILL)
    migrator.migrate(migrator.add_column("run", "refused", TextField(null=True)))
