# Everything a developer or CI does, by name. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

UV := ./tools/uv
RUN := $(UV) run --frozen --quiet
PYTEST := $(RUN) pytest
PYTHON_SOURCES := packages services cli cluster demo-apps bench tests tools
# mypy sees one package at a time: `src` layouts of a workspace share no root.
TYPED := packages/api/src packages/runtime/src packages/testing/src \
	services/admitter/src services/regulator/src services/prioritizer/src services/webhook/src cli/src cluster/src
ONLY ?=
CLUSTER ?= scavenger
CLUSTER_TESTS := -q --timeout 900 -rs --durations=8

.PHONY: help
help: ## List what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

##@ Try it

.PHONY: demo
demo: sync ## Tell the story on a real cluster: run, interrupt, resume, complete; then a gang of two
	$(RUN) python demo-apps/demo.py

.PHONY: up
up: sync ## Leave an embedded cluster running with the CRDs, the RBAC and every service
	$(RUN) python -m scavenger_cluster.stack up --name $(CLUSTER)

.PHONY: down
down: sync ## End what `make up` left running
	$(RUN) python -m scavenger_cluster.stack down --name $(CLUSTER)

.PHONY: cluster-up
cluster-up: sync ## Leave an embedded cluster running, empty
	$(RUN) python -m scavenger_cluster --name $(CLUSTER) up

.PHONY: cluster-down
cluster-down: sync ## End the embedded cluster; leaves no process, mount or interface
	$(RUN) python -m scavenger_cluster --name $(CLUSTER) down

##@ Test it

.PHONY: test
test: verify test-unit test-clusters ## All of it

# Tests against clusters wait much of the time, so there are two lanes beside each other, each on clusters of its own;
# more would run out of cores, and of the inotify instances that kubelets need. What no lane names is in the first.
LOOP := tests/e2e/test_closed_loop.py tests/e2e/test_budget_trick.py
ADMITTER := tests/integration/admitter
CHARTS := tests/integration/charts
.PHONY: test-clusters
test-clusters: programs ## What test-integration and test-e2e run, in two lanes beside each other
	$(RUN) python tools/side_by_side.py \
	  'first=failed=0; $(PYTEST) tests/e2e $(LOOP:%=--ignore %) $(CLUSTER_TESTS) || failed=1; \
	    $(PYTEST) tests/integration $(ADMITTER:%=--ignore %) $(CHARTS:%=--ignore %) $(CLUSTER_TESTS) || failed=1; exit $$failed' \
	  'second=failed=0; $(PYTEST) $(LOOP) $(CLUSTER_TESTS) || failed=1; $(PYTEST) $(ADMITTER) $(CLUSTER_TESTS) || failed=1; \
	    $(PYTEST) $(CHARTS) $(CLUSTER_TESTS) || failed=1; exit $$failed'

.PHONY: test-unit
test-unit: sync ## Decisions, queue, informer: no cluster, under 30 seconds
	$(PYTEST) tests/unit tests/contract -q -n 2

.PHONY: test-integration
test-integration: sync ## Against a real API server
	$(PYTEST) tests/integration $(CLUSTER_TESTS)

.PHONY: test-e2e
test-e2e: sync ## Against real kubelets and containers, or kwok nodes where those cannot run (it says which)
	$(PYTEST) tests/e2e $(CLUSTER_TESTS)

.PHONY: verify
verify: sync ## Formatting, types, layers, generated files, charts and manifests, Go
	$(RUN) ruff format --check $(PYTHON_SOURCES)
	$(RUN) ruff check $(PYTHON_SOURCES)
	$(RUN) mypy $(TYPED) demo-apps/counter/counter.py
	$(RUN) lint-imports --no-cache
	$(RUN) python -m scavenger_api.crd --check manifests/crds
	$(RUN) python tools/generate_charts.py --check
	$(RUN) python docs/draw_levels.py --check
	$(PYTEST) tests/charts -q -n 2
	services/scheduler/verify.sh

.PHONY: generate
generate: sync ## Write the generated files anew
	$(RUN) python -m scavenger_api.crd --write manifests/crds
	$(RUN) python tools/generate_charts.py --write
	$(RUN) python docs/draw_levels.py
	$(RUN) ruff format $(PYTHON_SOURCES)
	$(RUN) ruff check --fix $(PYTHON_SOURCES)

.PHONY: bench
bench: sync ## Print a table of figures and write bench.json; ONLY="informer queue" runs what begins with these
	$(RUN) python -m bench $(ONLY)

##@ Prepare

.PHONY: sync
sync: ## Install the Python workspace into .venv (uv itself too, if it is absent)
	@$(UV) sync --frozen --quiet

.PHONY: programs
programs: sync ## Build Kubernetes and what goes with it: minutes the first time, then cached outside the checkout
	$(RUN) python -m scavenger_cluster build
	$(RUN) python -m scavenger_cluster build coredns metrics-server helm

.PHONY: images
images: sync ## Build the images of the services and of the demo applications from local bases
	$(RUN) python -m scavenger_cluster.stack images --name $(CLUSTER)
