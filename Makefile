# Everything a developer or CI does, by name. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

UV := ./tools/uv
RUN := $(UV) run --frozen --quiet
PYTEST := $(RUN) pytest
PYTHON_SOURCES := packages services cli cluster simulator demo-apps bench tests tools
# mypy sees one package at a time: `src` layouts of a workspace share no root. The rest are modules by their path.
TYPED := packages/api/src packages/checkpoint/src packages/domain/src packages/kube/src packages/runtime/src \
	packages/testing/src services/admitter/src services/regulator/src services/prioritizer/src \
	services/webhook/src services/board/src cli/src cluster/src simulator/src demo-apps docs bench tests tools
ONLY ?=
EXAMPLES ?= quick
QUICK = $(filter quick,$(EXAMPLES))
CLUSTER ?= scavenger
NODES ?= auto
TRACES ?= $(SCAVENGER_TRACES)
VERSIONS ?=
TESTS ?= tests/e2e tests/integration
DEMO_WHERE = $(if $(filter current,$(CLUSTER)),--current $(if $(REGISTRY),--registry "$(REGISTRY)") $(if $(YES),--yes))
CLUSTER_TESTS := -q -rs --durations=8

# Containers like to set this. Python would then compile every module, and pytest rewrite every test, at each start of
# each process: 6 s of CPU time for each worker that runs unit tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

##@ Try it

.PHONY: demo
demo: sync ## Run the demo on a real cluster; CLUSTER=current: on yours (asks first), REGISTRY=…, YES=1
	$(RUN) python demo-apps/demo.py $(DEMO_WHERE)

.PHONY: demo-science
demo-science: sync ## Water by GROMACS, from a database through a tuner, interrupted again and again; table and plot
	$(RUN) python demo-apps/science.py --data dist/science.json
	$(RUN) python -m docs.pictures science dist/science.json dist/science.svg
	@echo "the plot: dist/science.svg"

.PHONY: up
up: sync ## Start an embedded cluster with the CRDs, the RBAC and every component, and leave it running
	$(RUN) python -m scavenger_cluster.stack up --name $(CLUSTER) --nodes $(NODES)

.PHONY: down
down: sync ## Stop what `make up` started
	$(RUN) python -m scavenger_cluster.stack down --name $(CLUSTER)

.PHONY: cluster-up
cluster-up: sync ## Start an empty embedded cluster, and leave it running
	$(RUN) python -m scavenger_cluster --name $(CLUSTER) up

.PHONY: cluster-down
cluster-down: sync ## Stop the embedded cluster; leaves no process, mount or interface
	$(RUN) python -m scavenger_cluster --name $(CLUSTER) down

##@ Test it

.PHONY: test
test: sync ## The gate: everything that a change must pass, every real component once; RECORD=1 keeps the times
	$(RUN) python -m tools.gate $(if $(RECORD),--record)

.PHONY: test-all
test-all: sync ## What the gate leaves out, the slices that have waited longest: MINUTES=60; SLICE=name; LIST=1
	$(RUN) python -m tools.test_all --minutes $(or $(MINUTES),60) $(if $(LIST),--list) $(SLICE)

.PHONY: test-times
test-times: sync ## What each test, file and fixture cost in the last run; LANES="unit others-e2e" MOST=30
	$(RUN) python -m tools.test_times $(LANES) $(if $(MOST),--most $(MOST))

# Two lanes beside each other, each on clusters of its own. The first has real containers, and the tests that measure what
# is used of the CPU or use all there is: no two of them run at a time. More lanes would run out of cores, and of the
# inotify instances that kubelets need.
LANE = SCAVENGER_TEST_LANE=$(1) $(PYTEST) $(2) $(CLUSTER_TESTS)
CONTAINERS = failed=0; $(call LANE,containers,tests/e2e -m "not long") || failed=1; \
	$(call LANE,containers-cpu,tests/integration -m "cpu and not long") || failed=1; exit $$failed
.PHONY: test-clusters
test-clusters: programs ## What `make test` runs on real clusters, in two lanes beside each other
	$(RUN) python tools/side_by_side.py 'containers=$(CONTAINERS)' \
		'servers=$(call LANE,servers,tests/integration -m "not cpu and not long")'

.PHONY: test-unit
test-unit: sync ## Decisions, queue, informer: no cluster, half a minute; EXAMPLES=thorough: all of it, as in `make test`
	SCAVENGER_TEST_LANE=unit $(PYTEST) tests/unit tests/contract -q --forks 3 -m "not long$(if $(QUICK), and not slow)" \
		--hypothesis-profile=$(EXAMPLES)

.PHONY: test-simulation
test-simulation: sync ## Policies in the simulator, its victims beside the scheduler's, histories with faults of all components
	SCAVENGER_TEST_LANE=simulation HISTORIES=80 $(PYTEST) tests/simulation -q -rs -n 2 --dist loadgroup -m "not long"

.PHONY: simulate-faults
simulate-faults: sync ## Histories with faults, 15 minutes; repeat it to continue. SEEDS=10000 in all; FIRST_SEED=0 starts over
	$(RUN) python -m tests.simulation $(if $(FIRST_SEED),--seed $(FIRST_SEED)) --seeds $(or $(SEEDS),10000) --until 840 \
		--table .simulation.json

.PHONY: simulate-bugs
simulate-bugs: sync ## Bugs put in on purpose, and what finds each: SEEDS=1000 looks for each in random histories as well
	$(RUN) python -m tests.simulation --bugs --seeds $(or $(SEEDS),0)

.PHONY: soak
soak: sync ## Jobs and arrays come and go on fake nodes while services are killed; an onlooker judges: SOAK_SECONDS=1200
	$(RUN) python -m bench.services.soak

.PHONY: fuzz
fuzz: EXAMPLES = fuzz
fuzz: test-unit ## Ten times the examples of `make test`, other ones each time: for a night, not for CI

.PHONY: test-integration
test-integration: sync ## Against a real API server
	$(PYTEST) tests/integration $(CLUSTER_TESTS)

.PHONY: test-upstream
test-upstream: sync ## Kubernetes' own tests of preemption, with the plugin in the place of DefaultPreemption: 20 minutes
	SCAVENGER_UPSTREAM=all $(PYTEST) tests/integration/scheduler/test_upstream.py $(CLUSTER_TESTS)

.PHONY: test-older
test-older: KUBERNETES = v1.33.13
test-older: sync ## Against an older Kubernetes, which is built first; KUBERNETES=v1.33.13 TESTS="tests/integration/api"
	SCAVENGER_KUBERNETES=$(KUBERNETES) $(PYTEST) $(TESTS) $(CLUSTER_TESTS)

.PHONY: scheduler-matrix
scheduler-matrix: ## Build the scheduler for older versions of Kubernetes, and run its tests with each; VERSIONS="v1.36.3"
	services/scheduler/matrix.sh $(VERSIONS)

.PHONY: test-snapshots
test-snapshots: ## Programs on snapshots, each interrupted 20 times at random moments: minutes, no cluster
	snapshot/verify.sh long --again

.PHONY: test-e2e
test-e2e: sync ## Against real kubelets and containers, or kwok nodes where those cannot run (it says which)
	$(PYTEST) tests/e2e $(CLUSTER_TESTS)

# Two at a time: types take one core, and as long as all else.
TOGETHER = $(MAKE) --no-print-directory --jobs=2 --output-sync=target

.PHONY: lint
lint: sync ## Formatting, types and layers of the Python code: seconds, no Go, no helm
	@$(TOGETHER) lint-types lint-format lint-words lint-layers

.PHONY: lint-types lint-format lint-words lint-layers
lint-types:
	$(RUN) python -m tools.seeded .mypy_cache mypy $(TYPED)
lint-format:
	$(RUN) ruff format --check $(PYTHON_SOURCES)
	$(RUN) ruff check $(PYTHON_SOURCES)
lint-words:
	$(RUN) python -m tools.prose --check
	$(RUN) python -m tools.array_questions
lint-layers:
	$(RUN) lint-imports --no-cache

.PHONY: verify
verify: lint generated test-charts test-go ## lint, and generated files, charts and manifests, Go

CHECKED := generate_charts dashboards reference version rights demands

.PHONY: generated
generated: sync ## Whether every generated file is up to date, and the documentation builds
	@$(TOGETHER) docs check-crd check-pictures $(CHECKED:%=check-%)

.PHONY: check-crd check-pictures $(CHECKED:%=check-%)
check-crd:
	$(RUN) python -m scavenger_api.crd --check manifests/crds
check-pictures:
	$(RUN) python -m docs.pictures --check
$(CHECKED:%=check-%): check-%:
	$(RUN) python -m tools.$* --check

.PHONY: test-charts
test-charts: sync ## What helm makes of the charts
	SCAVENGER_TEST_LANE=charts $(PYTEST) tests/charts -q --forks 2

.PHONY: test-go
test-go: sync ## The scheduler plugin and the snapshot keeper
	services/scheduler/verify.sh
	snapshot/verify.sh

.PHONY: docs
docs: sync ## The documentation as a site, in dist/docs; fails where a link leads nowhere
	$(RUN) python -m tools.docs_site
	$(RUN) zensical build --strict

.PHONY: docs-serve
docs-serve: sync ## The same on http://localhost:8000, rebuilt after each change of its sources
	$(RUN) python -m tools.docs_site
	$(RUN) zensical serve

.PHONY: generate
generate: sync ## Write the generated files
	$(RUN) python -m scavenger_api.crd --write manifests/crds
	$(RUN) python -m tools.generate_charts --write
	$(RUN) python -m docs.pictures
	$(RUN) python -m tools.dashboards --write
	$(RUN) python -m tools.reference --write
	$(RUN) python -m tools.demands --write
	$(RUN) ruff format $(PYTHON_SOURCES)
	$(RUN) ruff check --fix $(PYTHON_SOURCES)

.PHONY: bench
bench: sync ## Print a table of figures and write bench.json; ONLY="informer queue" runs what begins with these
	$(RUN) python -m bench $(ONLY)

.PHONY: simulate-table
simulate-table: sync ## Write the table of all policies on every trace into docs/designs/0027; TRACES=DIR of the public traces, TABLE="--check --only openb"
	$(RUN) python -m docs.simulate_table $(if $(TRACES),--traces "$(TRACES)") $(TABLE)

.PHONY: gain
gain: sync ## Measure what scavenging adds to a day, in the simulator, for the picture in README.md; TRACES=DIR
	$(RUN) python -m bench.simulator.proof --traces "$(TRACES)" docs/gain.json
	$(RUN) python -m docs.pictures
	$(RUN) python -m docs.gain_table
	BENCH_TRACE_DIR="$(TRACES)" $(RUN) python -m bench gain.harvest

##@ Release it

.PHONY: release
release: sync ## All of a release, the same each time: dist/; PARTS="wheels images/admitter", BASE=python@sha256:…, BASE_URL=…, IMAGES=…
	$(RUN) --group release python -m tools.release $(if $(PARTS),--only $(PARTS)) $(if $(BASE),--base "$(BASE)") \
	  $(if $(BASE_URL),--base-url "$(BASE_URL)") $(if $(IMAGES),--images "$(IMAGES)")

.PHONY: sign
sign: sync ## Sign what `make release` has made, for a registry: REGISTRY=registry.example.com/team, KEY=release.key (or SIGNING_KEY)
	$(RUN) --group release python -m tools.sign "$(REGISTRY)" $(if $(KEY),--key "$(KEY)")

.PHONY: publish
publish: sync ## Push the images and charts of `make release`, and their signatures: REGISTRY=registry.example.com/team
	$(RUN) --group release python -m tools.publish "$(REGISTRY)"

.PHONY: verify-release
verify-release: sync ## Verify dist/ by the public key, or with VERSION=0.2.0 what a registry has: REGISTRY=registry.example.com/team, KEY=release.pub
	$(RUN) --group release python -m tools.verify_release "$(REGISTRY)" --key "$(KEY)" $(if $(VERSION),--from-registry "$(VERSION)")

.PHONY: version
version: sync ## Write another version wherever it stands: VERSION=0.2.0
	$(RUN) python -m tools.version --set "$(VERSION)"
	$(UV) lock --quiet
	$(MAKE) generate

.PHONY: cli-file
cli-file: sync ## kubectl sj as one file, with a krew manifest: dist/cli; BASE_URL=… where it will be published
	$(RUN) --group release python tools/cli_file.py $(if $(BASE_URL),--base-url "$(BASE_URL)")

.PHONY: sbom
sbom: sync ## What is in each image, and in the command line: dist/sbom/*.cdx.json (CycloneDX)
	$(RUN) python tools/sbom.py

.PHONY: audit
audit: sync ## Known vulnerabilities of all dependencies; needs the network, and fails where it cannot look
	$(RUN) --group audit python tools/audit.py

##@ Prepare

.PHONY: sync
sync: ## Install the Python workspace into .venv (uv itself too, if it is absent)
	@$(UV) sync --frozen --quiet

.PHONY: programs
programs: sync ## Build Kubernetes and what goes with it: minutes the first time, then cached outside the checkout
	$(RUN) python -m scavenger_cluster.stack prepare

.PHONY: clean-cache
clean-cache: sync ## Remove the programs and images that were built; the next demo, test or cluster builds them again
	$(RUN) python -m scavenger_cluster.cache --clear

.PHONY: load-images
load-images: sync ## Build the images and load them into kind, minikube or other nodes: CONTEXT=…, SSH=USER, IMAGES="admitter counter"
	$(RUN) python -m tools.load_images $(if $(CONTEXT),--context "$(CONTEXT)") $(if $(SSH),--ssh "$(SSH)") $(IMAGES)

.PHONY: images
images: sync ## Build the images of the components and of the demo applications from local bases
	$(RUN) python -m scavenger_cluster.stack images --name $(CLUSTER)
