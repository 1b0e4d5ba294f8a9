"""What is known of clocks that are set, or wrong, while a run goes on."""

from peewee import Database, DoubleField, TextField
from playhouse.migrate import SchemaMigrator, migrate


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns; runs from before had clocks that nobody watched."""
    migrate(
        migrator.add_column("run", "steady_clock", TextField(null=True)),
        migrator.add_column("run", "clock_set_seconds", DoubleField(default=0.0)),
        *(
            migrator.add_column("rank", name, DoubleField(default=0.0))
            for name in ("clock_ahead", "dated_before", "dated_ahead")
        ),
    )
