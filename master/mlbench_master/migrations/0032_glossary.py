"""Columns and stored fields have the names that the API gives them."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

_COLUMNS = (
    ("run", "goal", "target"),
    ("run", "goal_reached_at", "target_reached_at"),
    ("run", "goal_train_seconds", "target_train_seconds"),
    ("run", "place", "slot"),
    ("runset", "places", "slots"),
    ("rank", "disturbance", "interference"),
    ("stream", "names_ranks", "has_other_ranks"),
)
# By column of JSON texts: a key that it has, and the key's name from now on.
_KEYS = (
    ("run", "figures", "waiting_share", "contention_share"),
    ("run", "figures", "waiting_rank", "contention_rank"),
    ("run", "delivery", "kept", "in_database"),
    ("rank", "interference", "own_waiting_seconds", "self_contention_seconds"),
    ("runset", "deleted", "place", "slot"),
    ("run", "origin", "place", "slot"),
)


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Rename the columns, then the keys in their texts."""
    for table, old, new in _COLUMNS:
        db.execute_sql(f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{new}"')
    for table, column, old, new in _KEYS:
        text = f'REPLACE("{column}", \'"{old}":\', \'"{new}":\')'
        db.execute_sql(f'UPDATE "{table}" SET "{column}" = {text}')  # noqa: S608
