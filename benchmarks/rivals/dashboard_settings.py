"""Django settings for MLBench's dashboard under measurement: its own, as far as they can be kept.

It runs with this folder and the dashboard's ``src`` on its path, so ``master`` is the dashboard's.
"""

import importlib
import os

_THEIRS = importlib.import_module("master.settings")
globals().update({name: value for name, value in vars(_THEIRS).items() if name.isupper()})

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["BENCHMARK_DATABASE"],
    }
}
# The scheduler looks for pods in Kubernetes, and needs a version that cannot be installed any more.
INSTALLED_APPS = [app for app in _THEIRS.INSTALLED_APPS if app != "scheduler"]
# To its advantage: in debugging mode, Django keeps every query that it makes.
DEBUG = False
# Names a class that RQ no longer has.
LOGGING: dict[str, object] = {}
