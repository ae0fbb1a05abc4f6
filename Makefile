# `make help` lists the targets.
SHELL := /bin/bash
GO ?= go
BIN := bin
BINARIES := pilot-discovery pilot-agent istio-iptables pilotctl bookinfo
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/meshpilot
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := $(CACHE)/actionlint-$(ACTIONLINT_VERSION)/actionlint

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: prerequisites
prerequisites: ## install what the tests need beside Go (as root, with apt or dnf), or name it (CI=true: also what is only needed not to skip tests)
	@./hack/prerequisites.sh test

.PHONY: build
build: ## build all binaries into bin/
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/...
	$(GO) build -o $(BIN)/bookinfo ./samples/bookinfo/app
	$(GO) build -o $(BIN)/demo ./samples/bookinfo/demo
	$(GO) build -o $(BIN)/ ./samples/tasks/ratelimit

CONSOLE := internal/diagnostics/console
.PHONY: ui
ui: ## build the web console from its sources (needs Node 20 and npm); the result is checked in
	cd $(CONSOLE)/ui && npm ci && npm run check && npm run build
	cd $(CONSOLE) && find ui -name node_modules -prune -o -type f -not -name '.*' -print | LC_ALL=C sort | xargs sha256sum > sources.sha256

.PHONY: ui-check
ui-check: ## build the web console again and compare the result with the files that are checked in
	cd $(CONSOLE)/ui && npm ci && npm run check && CONSOLE_OUT="$(CURDIR)/$(BIN)/console" npm run build
	diff -r $(BIN)/console $(CONSOLE)/dist

.PHONY: ui-test
ui-test: ui-check ## test the web console in Chromium, with axe for accessibility (as root, Chromium is installed)
	@./hack/prerequisites.sh ui
	MESHPILOT_LONG=true $(GO) test ./$(CONSOLE) ./test/integration/console -count=1

.PHONY: ui-screenshots
ui-screenshots: ## take the screenshots of docs/CONSOLE.md
	@./hack/prerequisites.sh ui
	$(GO) test ./test/integration/console -count=1 -run '^Test(Pages|Story|Changes|History|SignIn|TopologyOfManyServices|Traffic)$$' -args -screenshots $(CURDIR)/docs/console

PREFIX ?= /usr/local
SHARE := $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: ## install pilotctl with its man pages and its completion for bash, zsh and fish (PREFIX=/usr/local, DESTDIR for packages)
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/pilotctl
	install -D -m 755 $(BIN)/pilotctl $(DESTDIR)$(PREFIX)/bin/pilotctl
	mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(BIN)/pilotctl man $(SHARE)/man/man1
	$(BIN)/pilotctl completion bash > $(SHARE)/bash-completion/completions/pilotctl
	$(BIN)/pilotctl completion zsh > $(SHARE)/zsh/site-functions/_pilotctl
	$(BIN)/pilotctl completion fish > $(SHARE)/fish/vendor_completions.d/pilotctl.fish

.PHONY: envoy
envoy: ## fetch Envoy into the user's cache, if it is not there
	@./hack/prerequisites.sh demo
	@./hack/envoy.sh >/dev/null

.PHONY: envoys
envoys: envoy ## fetch every release of Envoy that is supported (hack/envoy.sh --list)
	@for v in $$(./hack/envoy.sh --list); do ./hack/envoy.sh $$v >/dev/null || exit 1; done

.PHONY: docs docs-serve
docs: ## build the documentation site into bin/site; broken links are errors (needs Python 3.11 and npm the first time)
	@./hack/docs/build.sh $(BIN)/site
	@echo "docs: $(BIN)/site/index.html"

docs-serve: ## serve the documentation site at http://127.0.0.1:8000, and again after each change
	@./hack/docs/build.sh --serve

.PHONY: charts
charts: ## complete the Helm charts of manifests/charts with the custom resource definitions of istio.io/api
	@./hack/crds.sh manifests/charts/base/files/crds.yaml

.PHONY: dashboards
dashboards: ## write the Grafana dashboards of the chart istiod from the tables in manifests/dashboards
	$(GO) run ./manifests/dashboards manifests/charts/istiod/monitoring/dashboards

.PHONY: manifests
manifests: ## write the charts as plain manifests into bin/manifests (SET='--set tag=…')
	@./hack/manifests.sh $(BIN)/manifests $(SET)

ENGINE ?= $(notdir $(firstword $(foreach e,docker podman buildah,$(shell command -v $(e) 2>/dev/null))))
HUB ?= meshpilot
TAG ?= 0.6.0
.PHONY: images
images: ## build the container images $(HUB)/{pilot,proxyv2,install-cni}:$(TAG) (needs docker, podman or buildah, and the network)
	@test -n "$(ENGINE)" || { echo "images: there is none of docker, podman and buildah" >&2; exit 1; }
	@for arg in GO_IMAGE PYTHON_IMAGE BASE_IMAGE; do \
	  [[ "$(BUILD_FLAGS)" =~ $$arg=[^[:space:]]*@sha256:[0-9a-f]{64}($$|[[:space:]]) ]] || \
	    echo "images: warning: $$arg is not named by digest; a release must set --build-arg $$arg=IMAGE@sha256:… in BUILD_FLAGS" >&2; \
	done
	@for image in pilot proxyv2 install-cni; do \
	  $(ENGINE) build $(BUILD_FLAGS) --file docker/Dockerfile --target $$image --tag $(HUB)/$$image:$(TAG) . || exit 1; \
	done

RELEASE := $(BIN)/release
.PHONY: release release-check release-vm
release: ## write a release into bin/release: archives, packages, images, charts, checksums (VERSION=0.6.0; RELEASE_FLAGS='--platforms linux/amd64'), see docs/RELEASE.md
	@$(GO) run ./hack/release --version "$(VERSION)" --out $(RELEASE) $(RELEASE_FLAGS)

release-vm: ## run the images of a release, and the commands of docs/VIRTUAL-MACHINES.md with its deb and rpm packages on freshly installed Debian systems (root; needs debootstrap)
	$(GO) run ./hack/release --version $(or $(VERSION),$(TAG)) --out $(RELEASE)-vm --platforms linux/$$($(GO) env GOARCH) --allow-dirty
	$(GO) test ./hack/release -v -count=1 -run '^Test(ImagesRun|ChartsNameImagesByDigest)$$' -args -release $(CURDIR)/$(RELEASE)-vm
	$(GO) test ./test/integration/vm -v -count=1 -run '^TestPackages$$' -args -release $(CURDIR)/$(RELEASE)-vm

release-check: ## write a release twice, from two clones, and compare the checksums (COLD=1: the second time with an empty build cache)
	@GO="$(GO)" ./hack/release/check.sh "$(VERSION)" $(RELEASE)-check $(RELEASE_FLAGS)

.PHONY: demo
demo: envoy build ## bring up Bookinfo behind real sidecars and tell the story (KEEP=1 leaves it running)
	@$(BIN)/demo --bin $(BIN) --envoy "$$(./hack/envoy.sh)" $(if $(KEEP),--keep)

.PHONY: demo-consul
demo-consul: envoy build ## the same with services in a real Consul server, which is built the first time (4 minutes)
	@consul="$$(CGO_ENABLED=0 $(GO) run ./test/support/consul/cmd/consul-binary)" && \
	  $(BIN)/demo --bin $(BIN) --envoy "$$(./hack/envoy.sh)" --consul "$$consul" $(if $(KEEP),--keep)

.PHONY: demo-k8s
demo-k8s: envoy ## bring up a Kubernetes cluster with meshpilot and Bookinfo and tell the story (root; KEEP=1 leaves it running)
	@$(GO) build -o $(BIN)/ ./test/integration/k8s/cmd/demo-k8s
	@$(BIN)/demo-k8s $(if $(KEEP),--keep)

.PHONY: cluster
cluster: envoy ## bring up a Kubernetes cluster with meshpilot installed, and leave it (root; UP='--tier api'); see docs/TESTING.md
	@$(GO) build -o $(BIN)/ ./test/support/cluster/cmd/meshcluster
	@$(BIN)/meshcluster up $(or $(UP),--mesh)

.PHONY: cluster-down
cluster-down: ## take that cluster down
	@$(BIN)/meshcluster down

.PHONY: programs
programs: ## build what test clusters and the Gateway API's suite are made of into the user's cache, if it is not there (12 minutes)
	@$(GO) run ./test/support/cluster/cmd/meshcluster build
	@$(GO) run ./test/conformance/gatewayapi/cmd/gwconformance build

# Tests wait for processes and timers for much of their time, so twice as many packages are tested at once as there are processors.
# The largest packages take three minutes on an idle machine; the limit is for machines that are several times slower.
PACKAGES_AT_ONCE ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2)
.PHONY: test
test: prerequisites envoys build programs ## run every test (`go test ./...` leaves out those that take a minute)
	MESHPILOT_LONG=true $(GO) test -timeout 20m -p $(PACKAGES_AT_ONCE) ./...

# The race detector takes some five times the memory: one package at a time. RACE='./internal/xds/...' names fewer packages.
RACE ?= ./...
.PHONY: test-race race
race: test-race
test-race: prerequisites envoy build programs ## run every test with the race detector, package by package (RACE=packages; LONG=false: the everyday tests)
	MESHPILOT_LONG=$(or $(LONG),true) $(GO) test -race -p 1 -timeout 30m $(RACE)

.PHONY: golden
golden: envoy ## rewrite the expected sections of golden files; read the diff
	$(GO) test $$(grep -rlE 'support/golden|flag.Bool\("update"' --include='*_test.go' internal | xargs -n1 dirname | sort -u | sed 's,^,./,') -update

SIZE ?= small,medium
BENCH ?=
.PHONY: bench
bench: build ## measure the control plane with a fleet of proxies (SIZE=large; BENCH='more flags'), see docs/BENCHMARKS.md
	$(GO) build -o $(BIN)/ ./test/perf/cmd/meshbench
	$(BIN)/meshbench run --plane $(BIN)/pilot-discovery --size $(SIZE) --json $(BIN)/bench.json $(BENCH)

.PHONY: bench-kube
bench-kube: build ## measure what the control plane takes to read and hold a large API server, or to follow an edited HTTPRoute of many (ROUTES=2000; BENCH='--plane istiod=/path/to/istiod')
	$(GO) build -o $(BIN)/ ./test/perf/cmd/kubebench
	$(BIN)/kubebench $(if $(ROUTES),gateway-routes --routes $(ROUTES)) --plane meshpilot=$(BIN)/pilot-discovery $(BENCH)

.PHONY: bench-consul
bench-consul: envoy build ## measure services from a real Consul server: staleness of 1,000 services in Envoy (BENCH='--services 500 --rate 1 --poll 2s': CPU beside a program that polls)
	@$(GO) build -o $(BIN)/ ./test/perf/cmd/consulbench
	@consul="$$(CGO_ENABLED=0 $(GO) run ./test/support/consul/cmd/consul-binary)" && \
	  $(BIN)/consulbench --consul "$$consul" --plane $(BIN)/pilot-discovery --envoy "$$(./hack/envoy.sh)" $(BENCH)

DATAPLANE = --envoy "$$(./hack/envoy.sh)" --plane meshpilot=$(BIN)/pilot-discovery $(if $(ISTIOD),--plane istiod=$(ISTIOD),--with-istiod)
.PHONY: bench-dataplane
bench-dataplane: build envoy ## measure what configuration of meshpilot and of istiod costs the same Envoy: memory, bytes, latency, CPU (ISTIOD=/path/to/istiod, by default built from its module; BENCH='--rounds 1')
	@$(GO) build -o $(BIN)/ ./test/perf/cmd/dataplanebench
	@$(BIN)/dataplanebench sizes $(DATAPLANE) $(BENCH)
	@$(BIN)/dataplanebench load $(DATAPLANE) --capture $(BIN)/istio-iptables $(BENCH)

.PHONY: bench-go
bench-go: ## run the Go benchmarks, and hold 10,000 proxies in memory
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 10x -timeout 30m ./test/perf
	$(GO) test -run TestFleetInMemory -count 1 -v ./test/perf -memory-proxies 10000

.PHONY: loss
loss: envoy ## change configuration under 1,000 requests a second, each change ROUNDS times (200), and count the lost ones (LOSS_FLAGS=-sotw, LOSS_FLAGS=-on-demand)
	MESHPILOT_LONG=true $(GO) test ./test/resilience/zeroloss -v -count=1 -timeout 60m -run '^TestNoRequestIsLost(AtAGateway)?$$' -args -rounds $(or $(ROUNDS),200) $(if $(CONTROL_PLANE),-pilot-discovery $(abspath $(CONTROL_PLANE))) $(LOSS_FLAGS)

.PHONY: skew
skew: envoys ## every supported version of Envoy: all golden cases, and a mesh that calls, drains and is upgraded under load (root; 20 minutes)
	MESHPILOT_LONG=true MESHPILOT_SKEW=true $(GO) test -v -count=1 -timeout 60m -run '^TestOlderEnvoysAcceptAllCases$$' ./internal/translate
	MESHPILOT_LONG=true MESHPILOT_SKEW=true $(GO) test -v -count=1 -timeout 60m ./test/conformance/skew

.PHONY: networks
networks: envoy ## two clusters on two networks: gateways between them, remote and external control planes (root; 3 minutes)
	MESHPILOT_LONG=true $(GO) test ./test/integration/networks -v -count=1 -timeout 20m

.PHONY: upgrade
upgrade: envoy programs ## run the commands of docs/UPGRADE.md under load: from the charts of the release before, and from istiod, which is built the first time (root; 10 minutes)
	$(GO) test ./test/integration/k8s -run '^TestUpgrade$$' -v -count=1 -timeout 40m -args -upgrade
	$(GO) test ./test/conformance/compat -run '^TestMoveFromIstiod$$' -v -count=1 -timeout 40m -args -peers

# A failed package does not stop the others.
PLATFORMS ?= consul cloudfoundry zookeeper eureka
.PHONY: platforms
platforms: envoy programs ## test registries on real servers: Consul, also beside Kubernetes, NATS, ZooKeeper, Eureka, which are built the first time, and the adapter in Python (10 minutes of two cores, the first time 16; PLATFORMS='consul eureka' for fewer; needs Java 17, Maven and Python 3.10)
	MESHPILOT_PLATFORMS=true CGO_ENABLED=0 $(GO) test $(addprefix ./test/integration/,$(addsuffix /...,$(PLATFORMS))) -p 1 -v -count=1 -timeout 30m
	MESHPILOT_PLATFORMS=true CGO_ENABLED=0 $(GO) test ./test/integration/demo -v -count=1 -timeout 10m -run '^TestConsulStory$$'
	MESHPILOT_PLATFORMS=true CGO_ENABLED=0 $(GO) test ./test/integration/adapter -v -count=1 -timeout 10m -run '^TestPythonSample$$'

.PHONY: observability
observability: envoy programs ## test alerts, dashboards and monitoring objects with Prometheus' own programs, which are built the first time (some 10 minutes, then 1)
	MESHPILOT_OBSERVABILITY=true $(GO) test ./test/integration/observability -v -count=1 -timeout 60m
	MESHPILOT_OBSERVABILITY=true $(GO) test ./test/integration/observability/dashboards -v -count=1 -timeout 15m
	MESHPILOT_OBSERVABILITY=true $(GO) test ./test/integration/chart -v -count=1 -timeout 10m -run '^TestMonitoring'

.PHONY: compat
compat: envoy programs ## run Istio's pilot-agent, istiod and istioctl together with ours; builds them the first time (root; 10 minutes, then 3)
	MESHPILOT_LONG=true $(GO) test ./test/conformance/compat -v -count=1 -timeout 40m -args -peers

CHANNEL ?= standard
.PHONY: conformance
conformance: envoy programs ## run the Gateway API's conformance suite on a cluster (root; 10 minutes; CHANNEL=experimental; RUN='HTTPRoute.*': only these tests; REPORT=file.yaml; KEEP=1; CONFORMANCE='--profiles GATEWAY-GRPC')
	@$(GO) build -o $(BIN)/ ./test/conformance/gatewayapi/cmd/gwconformance
	@$(BIN)/gwconformance --channel $(CHANNEL) --report $(or $(REPORT),$(BIN)/conformance-$(CHANNEL).yaml) --log $(BIN)/conformance-$(CHANNEL).log \
	  $(if $(RUN),--run '$(RUN)') $(if $(KEEP),--keep) $(CONFORMANCE)

.PHONY: conformance-inference
conformance-inference: envoy programs ## run the Gateway API Inference Extension's conformance suite with its reference endpoint picker (root; 2 minutes, the first time 10; RUN, REPORT, KEEP and CONFORMANCE as above)
	@$(GO) build -o $(BIN)/ ./test/conformance/gatewayapi/cmd/gwconformance
	@$(BIN)/gwconformance --inference --report $(or $(REPORT),$(BIN)/conformance-inference.yaml) --log $(BIN)/conformance-inference.log \
	  $(if $(RUN),--run '$(RUN)') $(if $(KEEP),--keep) $(CONFORMANCE)

.PHONY: identity
identity: envoy ## rotate the mesh's root and take its authority away ROUNDS times (20) under 1,000 requests a second
	MESHPILOT_LONG=true $(GO) test ./test/integration/identity -v -count=1 -timeout 60m -args -rounds $(or $(ROUNDS),20)

ATTACK_TIME = $(or $(DURATION),10m)
.PHONY: attack garbage
attack: envoy programs ## attack every port of both programs and measure honest clients (DURATION=10m; RUN='idle.*': only these attacks, each for DURATION; REPORT=file.md)
	MESHPILOT_LONG=true $(GO) test ./test/resilience/hostileclients -v -count=1 -timeout 0 -run 'TestHostileClients/($(or $(RUN),.*))' \
	  -args $(if $(RUN),-each,-duration) $(ATTACK_TIME) $(if $(REPORT),-report $(abspath $(REPORT))) $(ATTACK_FLAGS)
garbage: attack

.PHONY: scorecard
scorecard: build envoy programs ## run the 43 reliability checks and write docs/SCORECARD.md (SIZE=short|hour|soak; CHECKS=8,9; PEER=istiod's pilot-discovery)
	$(GO) run ./test/resilience/scorecard/cmd/scorecard --size $(if $(filter command line environment,$(origin SIZE)),$(SIZE),short) \
	  $(if $(CHECKS),--checks $(CHECKS)) $(if $(PEER),--peer $(abspath $(PEER)))

.PHONY: fuzz
fuzz: ## look for input that breaks parsers, each for a while (FUZZTIME=10s; FUZZ=regexp of targets); what is found is kept as a test
	@set -e; echo "$$(grep -rhE '^func Fuzz' --include='*_test.go' internal samples test | wc -l) targets"; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' internal samples test); do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]*)\(.*/\1/p' $$f | grep -E '$(or $(FUZZ),.)'); do \
	    echo "$$(dirname $$f) $$target"; \
	    $(GO) test ./$$(dirname $$f) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),10s) -fuzzminimizetime 5s; \
	  done; \
	done

.PHONY: fuzz-corpus
fuzz-corpus: ## keep inputs that make fuzz found, ten of each target, in testdata/fuzz
	@./hack/fuzz-corpus.sh

GOVULNCHECK_VERSION := v1.9.0
.PHONY: vuln
vuln: ## look for known vulnerabilities in what is called of the dependencies (govulncheck; needs vuln.go.dev)
	@GO="$(GO)" ./hack/vuln.sh $(GOVULNCHECK_VERSION)

.PHONY: lint
lint: $(GOLANGCI) $(ACTIONLINT) ## vet and lint, also the workflows of GitHub, and check the licenses of all modules in programs
	$(GO) vet ./...
	$(GOLANGCI) run ./...
	$(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yaml
	$(GO) test ./test/architecture/documents -run '^TestLicenses$$'

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION) into $(@D) (once)"
	@mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

$(ACTIONLINT):
	@echo "building actionlint $(ACTIONLINT_VERSION) into $(@D) (once)"
	@mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

.PHONY: clean
clean: ## remove what was built here
	rm -rf $(BIN)
