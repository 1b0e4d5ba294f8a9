"""Tables of workers, their pods, and joining tokens."""

from peewee import BigIntegerField, BooleanField, CharField, DoubleField, IntegerField

from mlbench_master.database.models.table import JSONField, Table


class Worker(Table):
    """The last report of an agent."""

    name = CharField(primary_key=True)
    state = CharField()
    run_id = IntegerField(null=True)
    attempt = IntegerField(null=True)
    ip = CharField()
    pod_uid = CharField(default="")
    """Uid of its pod; empty in pools without uids."""
    fork_server = BooleanField(default=False)
    """Whether a process that has imported PyTorch is ready to be forked."""
    resources = JSONField(null=True)
    """Resource usage of its rank, by name of the series; null if an exporter reports it."""
    seen_at = DoubleField()
    """Unix seconds of the report."""
    heard = BigIntegerField(default=0)
    """Reachable seconds at the report (``master/mlbench_master/runs/reachability.py``)."""


class MasterUptime(Table):
    """Reachable seconds (``master/mlbench_master/runs/reachability.py``), in a single row."""

    id = IntegerField(primary_key=True)
    seconds = BigIntegerField()
    since = BigIntegerField()
    """Reachable seconds at the end of the last pause."""

    class Meta:
        table_name = "hearing"


class Pod(Table):
    """A worker pod as its pool reports it, or a row that represents a rank of an external run."""

    name = CharField(primary_key=True)
    uid = CharField(default="")
    """Uid, because a later pod can have the same name; empty in pools without uids."""
    phase = CharField()
    ip = CharField()
    node = CharField()
    labels = JSONField()
    external = BooleanField(default=False)
    """Whether it represents a rank of an external run."""


class JoinToken(Table):
    """A named token. A token that was created elsewhere gets a row when it is first used."""

    holder = CharField(primary_key=True)
    name = CharField(default="")
    """Name of its user, from its creator."""
    role = CharField(default="record")
    created_at = DoubleField(null=True)
    """Null if it was not created by this master."""
    expires_at = DoubleField()
    revoked_at = DoubleField(null=True)
    last_used_at = DoubleField(null=True)
    runs = IntegerField(default=0)
    """Number of runs that processes with this token have submitted."""
    recent_runs = DoubleField(default=0)
    """Fill level of the bucket that limits the rate of new runs, as of ``recent_at``."""
    recent_at = DoubleField(default=0)
