# The commands of this project: what needs installing is installed first, into .venv and .tools.
# PYTHON=… names the interpreter that .venv is made with, PROMETHEUS=… a Prometheus to use,
# POSTGRES=… the folder of PostgreSQL's binaries, for tests.

BIN := .venv/bin
WITH_PROMETHEUS := PROMETHEUS="$$(scripts/get-prometheus.sh)" && export PROMETHEUS &&

.PHONY: help run install test check bench clean

help: ## show this list (the default)
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile

run: install ## start everything on this machine and watch a first run
	@$(WITH_PROMETHEUS) $(BIN)/mlbench demo

install: .venv/.installed ## make .venv and install mlbench into it

# The script writes the file itself, as its last act: an interrupted installation leaves none.
.venv/.installed: pyproject.toml
	@scripts/make-venv.sh

test: install ## run the tests
	$(WITH_PROMETHEUS) POSTGRES="$$(scripts/get-postgres.sh)" \
		MLBENCH_CORE="$$(scripts/get-mlbench-core.sh)" $(BIN)/pytest -n 2 --dist worksteal

check: install ## lint, formatting, types, imports, dashboards, Prometheus's rules, shell syntax
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m grafana.build --check
	promtool="$$(scripts/get-prometheus.sh promtool)" && \
		"$$promtool" check config --lint=all --lint-fatal prometheus/prometheus.yml && \
		"$$promtool" test rules prometheus/tests/*.yml
	for script in scripts/*.sh .ci/run; do bash -n "$$script" || exit 1; done

bench: install ## measure what the documentation claims
	@$(WITH_PROMETHEUS) $(BIN)/python -m benchmarks.run

clean: ## remove what was installed and cached here; your runs and results stay
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
