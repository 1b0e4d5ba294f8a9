"""The tables of the database."""

from peewee import Database, DatabaseError, OperationalError

from mlbench_master.database.connection import (
    UnreachableDatabaseError,
    connect,
    database,
    explain,
    raise_if_damaged,
)
from mlbench_master.database.models.run_tables import *
from mlbench_master.database.models.sample_tables import *
from mlbench_master.database.models.table import *
from mlbench_master.database.models.worker_tables import *
from mlbench_master.migrations import bring_up_to_date

TABLES = tuple(Table.__subclasses__())
"""All tables. A table precedes the tables that refer to it."""


def open_database(url: str, reserve_bytes: int = 0) -> Database:
    """Connect the tables to a database, and bring its schema up to date.

    ``reserve_bytes``: part of SQLite's disk that is reserved for the state of runs.

    Raises:
        DatabaseURLError: the URL is invalid.
        NewerSchemaError: a newer version of MLBench has used the database.
        DamagedDatabaseError: SQLite's file is damaged, or is not a database.
        UnreachableDatabaseError: PostgreSQL does not respond, or SQLite cannot open its file.
    """
    opened = connect(url, reserve_bytes)
    database.initialize(opened)
    try:
        bring_up_to_date(opened, TABLES)
    except DatabaseError as error:
        raise_if_damaged(opened, error)
        if not isinstance(error, OperationalError):
            raise
        why = f"cannot open the database {opened.database}: {explain(error)}"
        raise UnreachableDatabaseError(why) from error
    return opened
