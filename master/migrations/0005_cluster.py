"""What runs wait for, and which pods there are. Those of older ranks are not known any more."""

from peewee import CharField, Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "waiting", TextField(null=True)),
        migrator.add_column("rank", "pod_uid", CharField(null=True)),
        migrator.add_column("rank", "image", TextField(null=True)),
        migrator.add_column("worker", "pod_uid", CharField(default="")),
        migrator.add_column("pod", "uid", CharField(default="")),
    )
