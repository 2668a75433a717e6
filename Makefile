# Paddock. `make` alone lists what there is.
#
# run and test need Go, git and make. race needs a C compiler too. lint, format and vuln
# build their tools once, at the versions below, into .tools (not in git).

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
DEADCODE_VERSION    := v0.52.0

GO     ?= go
# What is compiled, Kubernetes above all, is compiled once: without C, as it is shipped, and without the paths of this
# machine, which else another clone compiles again for. The race detector alone needs C. `make lint` vets: go test would vet
# what is imported, too, all of Kubernetes for the scheduler.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath -vet=off,$(shell $(GO) env GOFLAGS)) -trimpath -vet=off)
# A test program without debug information links in half the time. Traces have their lines all the same.
TEST := $(GO) test -ldflags=-w
TOOLS  := $(CURDIR)/.tools
LINT   := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
VULN   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)
DEAD   := $(TOOLS)/deadcode-$(DEADCODE_VERSION)
BINARY := bin/paddock
AGENT  := bin/paddock-agent

# Modules of this repository that the Go API is released as, and that the main module requires. A pattern of directories such
# as ./... ends where a module begins: their packages have import paths.
MODULE   := github.com/paddock-project/paddock
NESTED   := api internal/core predict
PACKAGES = $(strip $(if $(filter ./...,$(PKG)),./... $(NESTED:%=$(MODULE)/%/...),$(foreach package,$(PKG),$(or $(strip $(foreach nested,$(NESTED),$(if $(filter ./$(nested) ./$(nested)/%,$(package)),$(package:./%=$(MODULE)/%)))),$(package)))))

# What the longer targets run on; the rest of a command line can narrow them,
# for example `make prop PKG=./internal/core/hint N=1000000`.
PKG   ?= ./...
N     ?= 100000
T     ?= 20s
COUNT ?= 1
KILLS ?= 50
IDLE  ?= 60s
NAME  ?= localhost/paddock:dev
SCHEDULER_NAME ?= localhost/paddock-scheduler:dev
QUIET_NAME ?= localhost/paddock-quiet:dev
NODES ?= 200
LIMIT ?= 20m
PLACEMENTS ?= 5000
# Which nodes and pods make cluster has: trace or large.
LOAD ?= trace
RACE_CHECKS ?= 100

.DEFAULT_GOAL := help
.PHONY: help run plan man build build-agent test check arch rewrite generate generated deadcode lint format race prop fuzz bench bench-beside crash idle figures large-pods golden tidy kubelets record record-check client-check client-check-telegraf topology-check kueue-check vuln image quiet-image krew release release-commit release-key release-check release-install release-test release-whole licenses image-check chart-check scheduler-image e2e e2e-kubelet e2e-crio e2e-quiet e2e-everywhere runtimes benefit stall starved clean e2e-cluster e2e-install record-nights cluster cluster-check cluster-apart cluster-large cluster-online upgrades cluster-baseline cluster-observed observe-admissions observe-kubelets scheduler scheduler-check scheduler-perf race-all lint-records image-check-arm64 nightly site proto

help: ## This list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# What `run` and `plan` decide about, and where `run` keeps what it holds (not in git).
EXAMPLE := --machine examples/machines/epyc-2s-nps4.json --kubelet-config examples/kubelet/pod-scope.yaml
HOME_OF_RUN := .paddock

run: plan ## Show the plan, then run the agent on the example pods until Ctrl-C.
	@mkdir -p $(HOME_OF_RUN)
	@[ -d $(HOME_OF_RUN)/pods ] || cp -R examples/pods $(HOME_OF_RUN)/pods
	@echo
	@echo "The agent admits these pods now. Edit $(HOME_OF_RUN)/pods, stop it, start it again; in another terminal:"
	@echo "  $(BINARY) pods --socket $(HOME_OF_RUN)/podresources.sock"
	@echo "  curl -s http://127.0.0.1:9925/metrics"
	@echo "Its log is $(HOME_OF_RUN)/agent.log. Ctrl-C ends it. The live map:"
	@echo "  http://127.0.0.1:9925"
	@trap : INT; $(BINARY) agent $(EXAMPLE) --pods $(HOME_OF_RUN)/pods --state $(HOME_OF_RUN)/state.json \
	    --podresources-socket $(HOME_OF_RUN)/podresources.sock 2> $(HOME_OF_RUN)/agent.log || \
	    { tail -n 3 $(HOME_OF_RUN)/agent.log >&2; exit 1; }

# Exit status 2 of paddock says that some pods were refused: here that is an answer.
plan: build ## Plan the example pods on an example machine.
	@$(BINARY) plan $(EXAMPLE) examples/pods/ || [ $$? -eq 2 ]

man: build ## The manual pages, into bin/man/man1: man -M bin/man paddock-plan.
	@mkdir -p bin/man/man1
	@$(BINARY) man bin/man/man1

# Programs have the version of their commit, whatever GOFLAGS says. The go command does not derive it in a worktree of git, where
# .git is a file. Without git, as in a source archive, programs have the version devel.
STAMPED = $(if $(shell git rev-parse HEAD 2> /dev/null),$(if $(wildcard .git/HEAD),-buildvcs=true,-ldflags "$$($(STAMP))"))

build: ## Build bin/paddock.
	@$(GO) build $(STAMPED) -o $(BINARY) ./cmd/paddock

build-agent: ## Build bin/paddock-agent, the program of the container image.
	@$(GO) build $(STAMPED) -o $(AGENT) ./cmd/paddock-agent

test: ## All tests, as they run on every change.
	$(TEST) -timeout 30m $(PACKAGES)

check: arch lint test race ## What a change must pass: import rules, format, lint, tests, race.

arch: ## The import rules and the other rules of the house (internal/arch).
	$(GO) test ./internal/arch

# A nested module requires no tool: it finds those of the main module in PATH.
GENERATE = $(GO) build -o $(TOOLS)/ tool && $(GO) generate ./... && for module in $(NESTED); do PATH="$(TOOLS):$$PATH" $(GO) -C $$module generate ./... || exit 1; done
generate: ## String methods of enumerations, and the CRDs, with tools of go.mod (stringer, controller-gen).
	$(GENERATE)

# The packages whose tests have answers in testdata.
RECORDED = grep -rl --include='*_test.go' -e 'flag.Bool("rewrite"' -e 'internal/testing/golden"' -e cockroachdb/datadriven internal cmd | xargs -n1 dirname | sort -u | sed -E 's|^($(subst $() ,|,$(NESTED)))/|$(MODULE)/&|; t; s|^|./|'
rewrite: ## Record all answers in testdata again; then read git diff. What no test writes still fails.
	$(GO) test $$($(RECORDED)) -rewrite

# Versions with which the module api compiles.
PROTOC_GEN_GO_VERSION      := v1.36.5
PROTOC_GEN_GO_GRPC_VERSION := v1.5.1
proto: ## The messages of predict.proto; needs protoc (package protobuf-compiler).
	@command -v protoc >/dev/null || { echo "protoc is missing: install protobuf-compiler" >&2; exit 1; }
	GOBIN=$(TOOLS) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION)
	GOBIN=$(TOOLS) $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC_VERSION)
	PATH="$(TOOLS):$$PATH" protoc -I api --go_out=api --go_opt=paths=source_relative --go-grpc_out=api --go-grpc_opt=paths=source_relative predict/v1alpha1/predict.proto

# What is generated is in git: `lint` fails where it is not what `generate` makes.
GENERATED = find . \( -name enum_string.go -o -name "zz_generated.*.go" -o -name "paddock-project.github.io_*.yaml" \) | sort | xargs sha256sum
generated:
	@before=$$($(GENERATED)); $(GENERATE) && [ "$$before" = "$$($(GENERATED))" ] || \
	    { echo "lint: generated files are not as 'make generate' makes them: commit what it made"; exit 1; }

# What is linked into the command and never called: what only tests use is in a test file or in a package for
# tests (internal/testing). The second run finds what not even a test uses. FOR_MODULES is called by the
# module scheduler.
FOR_MODULES := ^internal/(cluster/fleet/memo/memo|cluster/(capacity/room|fleet/replace)|cluster/fleetsource/(source|pod|node)|codec/handover/text|core/annotation/text|codec/claims/typed)\.go:
deadcode: $(DEAD) ## Functions that nothing calls, or only tests.
	@for what in "./cmd/paddock ./cmd/paddock-agent ./cmd/paddock-quiet" "-test $(PACKAGES)"; do \
	    found=$$($(DEAD) $$what) || exit 1; found=$$(printf '%s' "$$found" | grep -vE '$(FOR_MODULES)' || true); [ -z "$$found" ] || { echo "$$found"; echo "deadcode $$what: remove them, or move them to a test file"; exit 1; }; \
	done

# Other modules may print and wait. Linting them analyses Kubernetes, which takes twice as long as linting all of Paddock, so that
# .ci/run leaves MODULES empty. Those that are not shipped are linted by lint-records alone, which compiles Telegraf and Helm,
# too, with the libraries that each was released with. Linting includes go vet.
MODULES := scheduler deploy/image release examples/notice/go
RECORDERS := $(wildcard test/record/kubelet-*)
RECORDS := $(RECORDERS) test/noderesourcetopology test/kueue test/podresources test/chart test/e2e test/cluster test/programs

lint: $(LINT) generated deadcode tidy ## golangci-lint, which reports unformatted files too.
	$(LINT) run $(PKG)
	@set -e; for module in $(NESTED); do echo "$$module"; (cd $$module && $(LINT) run); done
	@set -e; for module in $(MODULES); do echo "$$module"; (cd $$module && $(LINT) run --disable depguard,forbidigo); done

# A nested module is compiled here with what it requires itself, as its users compile it, and not with the later versions of the
# main module.
tidy: ## The modules of the Go API require what they import, and no more.
	@set -e; for module in $(NESTED); do $(GO) -C $$module mod tidy -diff && $(GO) -C $$module vet ./...; done

lint-records: $(LINT) ## The same for the modules that are not shipped; minutes to compile, once.
	@set -e; for module in $(RECORDS); do echo "$$module"; (cd $$module && $(LINT) run --disable depguard,forbidigo); done

format: $(LINT) ## Format all Go files and group their imports.
	@set -e; for module in . $(NESTED) $(MODULES) $(RECORDS); do (cd $$module && $(LINT) fmt); done

# A package that has none of these imports, in its files and in its tests, and no go statement, starts no goroutine: no two can
# race there. RACE_TOO are the others that start some, or import one of ours which does. internal/arch makes sure of that.
RACING   := sync sync/atomic testing/synctest net net/http net/http/httptest os/signal golang.org/x/sync/errgroup
RACE_TOO := internal/cluster/clusterstate internal/cli/inputs internal/cli/stateview internal/cli/treatment internal/node/control internal/node/podsource/devicemetadata internal/testing/predict
# Of the scripts of cmd/paddock those that run a program beside another are called agent-*. The others, and the commands of
# the documentation, take four of five minutes there and run what the packages below test.
#
# The last seven measure memory, which the detector multiplies, flip bits of files one after the other, or have one goroutine and
# thousands of pods: half of all the time. RACE_LEAVES are packages that import one of the above and start no goroutine.
RACE_NOT := TestDocsCommands|TestScripts/([^a]|a[^g])|TestHeapIsBounded|TestHostileAnswersTakeLittleMemory|TestFlippedBits|TestLoopIsBounded|TestFromTheKubeletsFiles|TestObservedAsRecorded|TestUpgradeAsRecorded|TestUpgradeStartsAsRecorded
RACE_LEAVES := internal/arch
IMPORTS  := {{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}
race: export CGO_ENABLED = 1
race: ## The tests of packages that can race, under the race detector; needs a C compiler [RACE_CHECKS=100].
	@list=$$($(GO) list -race -f '$(IMPORTS)' $(PACKAGES)) || exit 1; status=0; \
	    racing=$$(echo "$$list" | awk '{ for (i = 2; i <= NF; i++) if (index(" $(RACING) ", " " $$i " ") && $$1 !~ "/($(RACE_LEAVES))$$") { print; next } } / /{ for (i = split("$(RACE_TOO)", too); i > 0; i--) if ($$1 ~ too[i] "$$") print }'); \
	    echo "$$(echo "$$racing" | grep -c .) of $$(echo "$$list" | grep -c .) packages with tests can race"; \
	    properties=$$(echo "$$racing" | awk '/ pgregory.net\/rapid/ { print $$1 }'); others=$$(echo "$$racing" | awk '!/ pgregory.net\/rapid/ { print $$1 }'); \
	    [ -z "$$others" ] || $(TEST) -race -timeout 30m -skip '$(RACE_NOT)' $$others || status=1; \
	    [ -z "$$properties" ] || $(TEST) -race -timeout 30m -skip '$(RACE_NOT)' $$properties -rapid.checks=$(RACE_CHECKS) || status=1; exit $$status

race-all: export CGO_ENABLED = 1
race-all: ## All tests under the race detector, with all checks.
	$(GO) test -race -timeout 30m $(PACKAGES)

# Only the tests of files that use rapid are run, package by package, so that the lines tell
# how far it is. rapid prints how to repeat a failure.
prop: ## Property tests at N checks each: make prop N=100000 [PKG=./internal/core/hint].
	@set -e; list=$$($(GO) list -f '{{$$p := .}}{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$$p.Dir}} {{$$p.ImportPath}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "pgregory.net/rapid"}}{{$$p.Dir}} {{$$p.ImportPath}}{{"\n"}}{{end}}{{end}}' $(PACKAGES) | sort -u | grep .) || { echo "no package of $(PKG) has property tests"; exit 1; }; \
	total=$$(echo "$$list" | wc -l); i=0; failed=; \
	for package in $$(echo "$$list" | cut -d ' ' -f 2); do \
	    i=$$((i + 1)); dir=$$(echo "$$list" | sed -n "$${i}s/ .*//p"); \
	    tests=$$(grep -l '"pgregory.net/rapid"' $$dir/*_test.go | xargs grep -ohE '^func Test[A-Za-z0-9_]+' | awk '{ print $$2 }' | paste -sd '|' -); \
	    echo "[$$i/$$total] $${dir#$(CURDIR)/}, $(N) checks each"; \
	    $(GO) test -v -count=1 -timeout=0 -run "^($$tests)\$$" $$package -rapid.checks=$(N) || failed="$$failed $${dir#$(CURDIR)/}"; \
	done; \
	[ -z "$$failed" ] || { echo "property tests failed in:$$failed"; exit 1; }

fuzz: ## Every fuzz target for T: make fuzz T=20s [PKG=./internal/codec/podspec].
	@set -e; failed=; \
	for package in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PACKAGES)); do \
	    dir=$${package#$(MODULE)/}; \
	    grep -qs '^func Fuzz' $$dir/*_test.go || continue; \
	    for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	        echo "$$dir: $$target, $(T)"; \
	        $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(T) $$package || failed="$$failed $$target"; \
	    done; \
	done; \
	[ -z "$$failed" ] || { echo "fuzz targets failed:$$failed"; exit 1; }

bench: ## All benchmarks: make bench COUNT=10 > new.txt, for benchstat.
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 0 $(PACKAGES)

# One package, since its benchmarks run in turns: what else the machine does then meets all commits alike.
BEFORE ?= HEAD~1
BENCH  ?= .
bench-beside: ## Benchmarks of a package at other commits and at HEAD: make bench-beside PKG=./internal/testing/core/node BENCH=Admit BEFORE='de7e616 9f89495' COUNT=6
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cd "$$dir"; \
	for ref in $(BEFORE) HEAD; do \
	    mkdir $$ref; git -C $(CURDIR) archive $$ref | tar -x -C $$ref; (cd $$ref/$(PKG) && $(GO) test -c -o "$$dir/$$ref.test" .); \
	done; \
	for i in $$(seq $(COUNT)); do for ref in $(BEFORE) HEAD; do \
	    echo "[$$i/$(COUNT)] $$ref"; (cd $$ref/$(PKG) && "$$dir/$$ref.test" -test.run '^$$' -test.bench '$(BENCH)' -test.benchmem >> "$$dir/$$ref"-bench.txt); \
	done; done; \
	$(GO) run golang.org/x/perf/cmd/benchstat@latest $(foreach ref,$(BEFORE) HEAD,$(ref)=$(ref)-bench.txt)

# The second is the real binary: kill -9 at random moments while manifests come and go.
crash: build-agent ## 10,000 histories with a crash after every operation; KILLS kills of a real agent.
	$(GO) test -count=1 -v -run '^TestCrash$$' ./internal/node/engine -rapid.checks=1000
	PADDOCK=$(CURDIR)/$(AGENT) $(GO) test -count=1 -v -timeout 0 -run '^TestKill$$' ./cmd/paddock -kills=$(KILLS)

# Freezes a real file system, on a loop device: as root. Elsewhere the test says that it was skipped.
stall: ## Ten seconds without a disk: every request of the runtime is answered within one.
	$(GO) test -count=1 -v -run '^TestFrozenDisk$$' ./internal/agent -freeze=10s

idle: build-agent ## Memory and CPU of an agent that holds 250 pods of four containers for IDLE.
	PADDOCK=$(CURDIR)/$(AGENT) $(GO) test -count=1 -v -timeout 0 -run '^TestFootprint' ./cmd/paddock -idle=$(IDLE)

# The limit is a cgroup's: as root.
starved: build-agent ## Answers of an agent that gets a part of a CPU, as the table of docs/slow-nodes.md; ten minutes.
	PADDOCK=$(CURDIR)/$(AGENT) $(GO) test -count=1 -v -timeout 30m -run '^TestStarved$$' ./cmd/paddock -starved

# CPU time and memory of whole runs beside what they may be; a picture of the page takes what it takes on this machine.
FIGURE ?= .
figures: build ## paddock fleet on whole fleets, beside its targets: make figures [FIGURE=fill|place|cluster|fit|size|online|page].
	@PADDOCK=$(CURDIR)/$(BINARY) $(GO) test -count=1 -v -timeout 0 -run '^TestFigures$$/$(FIGURE)' ./cmd/paddock -figures
	@case online in *$(FIGURE)*|$(FIGURE)) $(GO) test -count=1 -v -run '^TestOnline$$' ./internal/cluster/capacity ;; esac
	@case page in *$(FIGURE)*|$(FIGURE)) $(GO) test -count=1 -v -timeout 10m -run '^TestPage$$/^scrolling$$' ./internal/ui/fleetpage -figures ;; esac

SEED   ?= 1
PODS   ?= 5000
OUTPUT ?= bin/large-pods
large-pods: ## A fleet of large pods as input of paddock fleet: make large-pods [SEED=1 PODS=5000 OUTPUT=bin/large-pods].
	@$(GO) test -count=1 -run '^TestWrite$$' ./internal/testing/largepods -seed $(SEED) -pods $(PODS) -output $(abspath $(OUTPUT)) && ls $(OUTPUT)/*

# The verdicts on state files are no scenarios; tests read them.
golden: build ## Replay the reference's answers and compare.
	$(BINARY) replay --check $(filter-out %/state-verdicts.jsonl.gz,$(wildcard testdata/golden/*.jsonl.gz))

kubelets: ## Compare with every recorded answer of every kubelet; go test compares every fourth scenario.
	$(GO) test -count=1 -v -run TestKubelets ./internal/cli/replay -whole
	$(GO) test -count=1 -v -run 'TestFromTheKubeletsFiles|TestUpgrade.*AsRecorded' ./internal/cli/treatment -whole

# A module for each minor, with its k8s.io/kubernetes; see test/record/README.md.
record-check: ## Each kubelet gives every recorded answer again; the first build of each takes minutes.
	@set -e; for module in $(RECORDERS); do echo "$$module"; (cd $$module && $(GO) vet . && $(GO) test -count=1 -timeout 30m .); done

record: ## Record a kubelet's answers from nothing: make record VERSION=v1.37.2. The first build takes minutes.
	test/record/record.sh $(VERSION)

# A module of its own, with k8s.io/kubernetes and Telegraf.
client-check: ## The kubelet's own client of the PodResources socket works with Paddock's; the first build takes a minute.
	cd test/podresources && $(TEST) -count=1 -timeout 15m .

client-check-telegraf: ## The same for Telegraf; the first build takes minutes.
	cd test/podresources && $(TEST) -count=1 -timeout 15m -tags telegraf -run '^TestTelegraf$$' .

# A module of its own, with the scheduler-plugins and Kubernetes 1.33.
topology-check: ## The plugin NodeResourceTopologyMatch answers about what is published; the first build takes two minutes.
	cd test/noderesourcetopology && $(TEST) -count=1 -timeout 15m .

kueue-check: ## Kueue's own types see Paddock's answers as they are meant, and Kueue itself runs with the check; the first build takes minutes.
	cd test/kueue && $(TEST) -count=1 -timeout 15m .
	cd test/cluster && $(TEST) -count=1 -timeout 20m -run TestKueue ./installed

# A module of its own. Without Docker and without a base image; the same commit gives the same bytes.
image: ## The container image for amd64 and arm64, bin/paddock-image.tar: make image [NAME=registry/paddock:v1].
	@cd deploy/image && $(GO) run . -output $(CURDIR)/bin/paddock-image.tar -name $(NAME)

scheduler-image: ## The image of paddock-scheduler, bin/paddock-scheduler-image.tar; minutes to compile, once [SCHEDULER_NAME=…].
	@cd deploy/image && $(GO) run . -command paddock-scheduler -output $(CURDIR)/bin/paddock-scheduler-image.tar -name $(SCHEDULER_NAME)

quiet-image: ## The image of paddock-quiet, bin/paddock-quiet-image.tar [QUIET_NAME=…].
	@cd deploy/image && $(GO) run . -command paddock-quiet -output $(CURDIR)/bin/paddock-quiet-image.tar -name $(QUIET_NAME)

krew: ## kubectl paddock for Linux and macOS with its manifest for krew, in bin/krew.
	@cd deploy/image && $(GO) run . -krew $(CURDIR)/bin/krew

# A module of its own, with kustomize. docs/release.md has the steps, with what they print and how long they take.
VERSION    ?=
REGISTRY   ?= localhost
KEY        ?=
VULNDB     ?= https://vuln.go.dev
PUBLIC_KEY ?=
SKIP       ?=
RELEASE_TOOL := cd release && $(GO) run .
release-commit: ## The branch with the commit of a release, for review: make release-commit VERSION=v0.1.0
	@$(RELEASE_TOOL) commit -version '$(VERSION)'

release-key: ## A key to sign releases with, outside of the repository, with its public key beside it [KEY=FILE].
	@$(RELEASE_TOOL) key -key '$(abspath $(KEY))'

release: ## All that a release has, signed, in bin/release/VERSION: make release VERSION=v0.1.0 [REGISTRY=registry.example/team KEY=FILE VULNDB=file:///DIR]; four minutes, fifteen from nothing.
	@$(RELEASE_TOOL) make -version '$(VERSION)' -registry '$(REGISTRY)' -key '$(abspath $(KEY))' -vulnerabilities '$(VULNDB)'

release-check: ## Verify that folder, use it offline, and build it again with an empty cache: make release-check VERSION=v0.1.0 [PUBLIC_KEY=FILE SKIP=cluster,rebuild].
	@$(RELEASE_TOOL) check -version '$(VERSION)' -public-key '$(abspath $(PUBLIC_KEY))' -skip '$(SKIP)'

# The node is a virtual machine: see e2e-cluster. The images must be for the registry localhost.
release-install: ## That folder on a node without a network: make release-install VERSION=v0.1.0; five minutes.
	cd test/e2e && $(GO) test -v -count=1 -timeout 60m -run '^TestRelease$$' ./cluster -release $(CURDIR)/bin/release/$(VERSION)

release-whole: ## A whole release of small programs, made and checked by the tests; a minute or two.
	cd release && $(GO) test -v -count=1 -timeout 30m -run '^TestWhole$$' . -whole

release-test: ## The tests of the release tool, with the licenses of what is linked; seconds.
	cd deploy/image && $(TEST) -count=1 -timeout 10m ./licenses
	cd release && $(TEST) -count=1 -timeout 10m ./...

licenses: ## The licenses of what each program links, in bin/licenses; fails for one that is not allowed; seconds.
	@cd deploy/image && $(GO) run . -licenses $(CURDIR)/bin/licenses

image-check: ## The images for amd64 are reproducible and complete; minutes to compile, once.
	cd deploy/image && $(TEST) -count=1 -timeout 30m .

image-check-arm64: ## The same with the images for arm64; compiling them takes minutes more, once.
	cd deploy/image && $(GO) test -count=1 -timeout 30m . -arm64

# A module of its own, the only one with Helm and kustomize.
chart-check: ## The chart's defaults are deploy/base, its options what testdata shows; minutes to compile, once.
	cd test/chart && $(TEST) -count=1 -timeout 15m .

# govulncheck says 3 for findings, and 1 for everything else that went wrong. That its database
# cannot be reached (no network, a closed one) is no fault of the code, and is said.
vuln: $(VULN) ## Known vulnerabilities in what is called; needs the Go vulnerability database.
	@set +e; out=$$($(VULN) $(PACKAGES) 2>&1); status=$$?; echo "$$out"; \
	if [ $$status -eq 1 ] && echo "$$out" | grep -q 'fetching vulnerabilities'; then \
	    echo "vuln: NOT CHECKED: the vulnerability database cannot be reached from here."; \
	    [ -z "$$PADDOCK_LACKS" ] || echo vulnerability-database >>"$$PADDOCK_LACKS"; \
	    exit 0; \
	fi; exit $$status

# A module of its own. Needs QEMU and some Debian packages, which it installs where it may, and
# keeps what takes long to build in ~/.cache/paddock-e2e; see test/e2e/README.md.
E2E_PARTS := cd test/e2e && $(TEST) -timeout 5m ./parts ./sampler
e2e: ## The agent beside a real containerd, in virtual machines with several NUMA nodes.
	$(E2E_PARTS) && $(GO) test -v -count=1 -timeout 60m .

e2e-kubelet: ## The same, and a real kubelet; building that takes minutes, once.
	$(E2E_PARTS) && E2E_KUBELET=1 $(GO) test -v -count=1 -timeout 60m .

e2e-crio: ## The agent beside CRI-O; building that takes minutes, once.
	$(E2E_PARTS) && $(GO) test -v -count=1 -timeout 60m -run '^TestCRIO$$' . -crio -everywhere

# COLUMNS and ROWS are regular expressions: make runtimes COLUMNS='2\.1|CRI-O' ROWS=quota. Other cells stay as they are.
COLUMNS ?=
ROWS    ?=
runtimes: ## What releases of container runtimes do, as the table of docs/runtimes.md; half an hour [COLUMNS=… ROWS=…].
	$(E2E_PARTS) && $(GO) test -v -count=1 -timeout 120m -run '^TestRuntimes$$/^columns$$/$(COLUMNS)' . -runtimes -rows '$(ROWS)'

e2e-quiet: ## What interrupts exclusive CPUs before and after paddock quiet, as the table of docs/quiet-cpus.md; three minutes.
	$(E2E_PARTS) && $(GO) test -v -count=1 -timeout 20m -run '^TestQuiet$$' . -quiet

e2e-everywhere: ## The same with a long churn, every policy, five NUMA nodes, and each comparison with a kubelet; half an hour.
	$(E2E_PARTS) && E2E_KUBELET=1 $(GO) test -v -count=1 -timeout 60m . -everywhere

# Counts, not times: the machine is emulated.
benefit: ## What exclusive CPUs do for a program beside noisy neighbours, as the table of docs/benefit.md.
	cd test/e2e && $(GO) test -v -count=1 -timeout 30m -run '^TestBenefit$$' . -benefit

# PAGES is a regular expression: make e2e-cluster PAGES='reboot|upgrade'. LANES is how many clusters run at once; each wants
# two CPUs and 4 GiB, and leaves most of them idle.
PAGES ?=
LANES ?= 2
e2e-cluster: ## A whole small cluster, as deploy/README.md installs it; building Kubernetes takes minutes, once [PAGES= LANES=2].
	cd test/e2e && E2E_PAGES='$(PAGES)' $(GO) test -v -count=1 -timeout 60m -parallel $(LANES) ./cluster

e2e-install: ## The path of a newcomer: commands, seconds, and what is left on the node.
	$(MAKE) --no-print-directory e2e-cluster PAGES='^08-'

# The folders of examples/nights; see test/e2e/README.md. NIGHTS is a regular expression of their names.
NIGHTS ?= .
record-nights: ## Real kubelets reject pods, and their nodes are collected for the tests; building two kubelets takes minutes, once [NIGHTS=].
	cd test/e2e && $(GO) test -v -count=1 -timeout 120m -run '^TestNights$$' ./cluster -nights '$(NIGHTS)'
	$(GO) test -count=1 -v -run '^TestNights$$' ./cmd/paddock -rewrite

# The go command derives the version of the main module from the tags. The module scheduler has no tags.
STAMP := version=$$(cd $(CURDIR)/deploy/image && $(GO) run . -print-version) && echo "-X github.com/paddock-project/paddock/internal/base/build.version=$$version"
# A module of its own, with k8s.io/kubernetes: minutes to compile, once.
scheduler: ## Build bin/paddock-scheduler, a kube-scheduler with the plugin Paddock.
	cd scheduler && $(GO) build -ldflags "$$($(STAMP))" -o $(CURDIR)/bin/paddock-scheduler ./cmd/paddock-scheduler

scheduler-check: ## The tests of the scheduler; minutes to compile, once.
	cd scheduler && $(TEST) -count=1 -timeout 15m ./...

# Throughput is scheduler_perf of Kubernetes, which runs an API server and needs etcd in PATH; make e2e-cluster leaves
# one in ~/.cache/paddock-e2e.
PERF_LOG := bin/scheduler-perf.log
# Kubernetes starts an API server with files beside its source. With -trimpath, it looks for them below these two.
scheduler-perf: ## Pods a second with the plugin and without it, the times of Filter, the memory of 100,000 grants.
	@mkdir -p bin; echo "This takes two to five minutes. Everything that it prints goes to $(PERF_LOG)."
	@cd scheduler && data=$$(mktemp -d) && trap 'rm -rf "$$data"' EXIT && \
	    export TEST_SRCDIR="$$($(GO) env GOMODCACHE)" TEST_WORKSPACE=. && PATH="$$PATH:$$(ls -dt $$HOME/.cache/paddock-e2e/etcd-* | head -n 1)" && log=$(CURDIR)/$(PERF_LOG) && \
	    { $(GO) test -run '^$$' -bench 'Throughput|Memory|Filter$$' -benchtime 1x -timeout 0 ./perf -data-items-dir "$$data" -v=0 && \
	    $(GO) test -run '^$$' -bench Requeue -benchtime 1x -timeout 0 ./plugin -v=0; } > $$log 2>&1 && $(GO) run ./perf/report < $$log || { tail -n 40 $$log >&2; exit 1; }

# A module of its own. The control plane is built once, as for e2e-cluster.
cluster: ## Hollow nodes under a real control plane: which pods does a node reject? [NODES=200 PLACEMENTS=5000 LOAD=large]
	cd test/cluster && $(GO) run . -load $(LOAD) -nodes $(NODES) -placements $(PLACEMENTS) -baseline 0 -limit $(LIMIT) $(CLUSTER)

cluster-large: ## The same for pods with up to 96 CPUs and 8 GPUs, on 50 nodes.
	$(MAKE) --no-print-directory cluster LOAD=large NODES=50 PLACEMENTS=1000

cluster-online: PLACEMENTS = 5000
cluster-online: SEED = 2
cluster-online: ## Do large pods get within 2 % of the CPUs as they come that they get largest first? Ten minutes [SEED=2 PLACEMENTS=5000].
	cd test/cluster && $(GO) run . -load online -seed $(SEED) -placements $(PLACEMENTS) -baseline 0 -limit 1h $(CLUSTER)

cluster-check: ## The tests of the hollow nodes, and of what deploy/ installs, under the same control plane.
	cd test/cluster && $(TEST) -timeout 15m ./...

BASELINE ?= 1000
cluster-baseline: ## The same under the default scheduler, a figure for comparison [BASELINE=1000].
	cd test/cluster && $(GO) run . -nodes $(NODES) -placements 0 -baseline $(BASELINE) -limit $(LIMIT) $(CLUSTER)

# KUBELETS_OF has the minor versions, each with a third of the nodes. Other schedulers and static pods are there too.
KUBELETS_OF ?= 1.35 1.36 1.37
CHAOS       ?= foreign,static
cluster-observed: ## Hollow nodes on which kubelets decide: which pods do they reject? [NODES=200 PLACEMENTS=5000 KUBELETS_OF='1.36 1.37']
	@mkdir -p bin; set -e; list=; for minor in $(KUBELETS_OF); do \
	    (cd test/record/kubelet-$$minor && $(GO) build -o $(CURDIR)/bin/record-$$minor .); list="$$list,$$minor=$(CURDIR)/bin/record-$$minor"; done; \
	    cd test/cluster && $(GO) run . -kubelets "$${list#,}" -nodes $(NODES) -placements $(PLACEMENTS) -baseline 0 -limit $(LIMIT) -chaos $(CHAOS) $(CLUSTER)

# RESULTS grows with each run, and a run goes on where an earlier one ended.
KUBELETS   ?= 1.33 1.34 1.35 1.36 1.37
ADMISSIONS ?= 1000
RESULTS    ?= bin/observed-admissions.jsonl
observe-admissions: ## Kubelets decide while the agent observes: was each decision predicted? Minutes to compile, once [ADMISSIONS=1000 KUBELETS='1.36 1.37'].
	@mkdir -p bin; set -e; list=; for minor in $(KUBELETS); do \
	    (cd test/record/kubelet-$$minor && $(GO) build -o $(CURDIR)/bin/record-$$minor .); list="$$list,$$minor=$(CURDIR)/bin/record-$$minor"; done; \
	    cd test/cluster && $(GO) run ./admissions -kubelets "$${list#,}" -count $(ADMISSIONS) -results $(abspath $(RESULTS))

# The same with real kubelets in a virtual machine, under the policies of a stock configuration; see test/e2e/README.md.
observe-kubelets: KUBELETS = 1.34 1.37
observe-kubelets: ADMISSIONS = 150
observe-kubelets: RESULTS = bin/observed-kubelets.jsonl
observe-kubelets: ## Real kubelets decide while the agent observes; building them takes minutes, once [ADMISSIONS=150 KUBELETS='1.36 1.37'].
	@mkdir -p bin
	cd test/e2e && $(GO) test -v -count=1 -timeout 180m -run '^TestObserved$$' ./cluster -observed $(ADMISSIONS) -observed-minors '$(KUBELETS)' -observed-results $(abspath $(RESULTS))

# Agent and scheduler work together one version apart, both ways: the nodes and the load are those of one commit, the
# scheduler is that of another one. The commits must have test/cluster.
NODES_REF     ?= HEAD
SCHEDULER_REF ?= HEAD
cluster-apart: ## The same, with nodes of one commit and the scheduler of another. [NODES_REF=HEAD SCHEDULER_REF=HEAD]
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	    for ref in nodes:$(NODES_REF) scheduler:$(SCHEDULER_REF); do mkdir "$$dir/$${ref%%:*}"; git archive "$${ref#*:}" | tar -x -C "$$dir/$${ref%%:*}"; done; \
	    cd "$$dir/nodes/test/cluster"; $(GO) run . -nodes $(NODES) -placements $(PLACEMENTS) -baseline 0 -limit $(LIMIT) -scheduler-source "$$dir/scheduler" $(CLUSTER)

# Every pair of these versions, the oldest first, up and back; .git must have them. The table is in RELEASES.md, with the names
# before "=". The first has a scheduler of Kubernetes 1.36.
UPGRADES            ?= before observing agents=e47c4707, before 0.1=53695584, 0.1=HEAD
upgrades: NODES      = 30
upgrades: PLACEMENTS = 600
upgrades: ## Agents and schedulers are upgraded, and go back, while pods come and go: is one moved? [UPGRADES='v0.1.0, 0.2=HEAD' NODES=30 PLACEMENTS=600]
	cd test/cluster && $(GO) run ./upgrades -versions '$(UPGRADES)' -nodes $(NODES) -placements $(PLACEMENTS) -page $(CURDIR)/RELEASES.md

# What CI leaves out, because it takes long or checks nothing of the product. It goes on behind what fails.
NIGHTLY := race-all release-whole kubelets record-check observe-admissions observe-kubelets cluster-observed lint lint-records client-check-telegraf topology-check kueue-check image-check-arm64 cluster cluster-large cluster-online cluster-baseline upgrades e2e-everywhere e2e-crio e2e-cluster
nightly: ## What .ci/run leaves out, in a row; two hours from nothing.
	@failed=; for target in $(NIGHTLY); do echo "=== $$target"; $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; done; \
	    [ -z "$$failed" ] || { echo "nightly: failed:$$failed"; exit 1; }

# Links to pages that do not exist fail the build. SITE_VERSION puts a release below /VERSION/.
site: build ## The documentation with search, in bin/site; needs Node.js 20 with npm, and Chromium for the pictures [SITE_VERSION=v0.1.0].
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or a later one" >&2; exit 1; }
	@mkdir -p bin/pictures
	PADDOCK_REQUIRE_BROWSER=1 $(GO) test -count=1 -run TestPictures ./internal/ui/web ./internal/ui/fleetpage -screenshots $(CURDIR)/bin/pictures
	cd site && npm ci --no-audit --no-fund && PADDOCK_VERSION=$(SITE_VERSION) npm run build

clean: ## Remove what was built; .tools stays.
	rm -rf bin

$(LINT):
	@echo "building golangci-lint $(GOLANGCI_VERSION) (a minute or two, once)"
	@GOBIN=$(TOOLS) GOFLAGS=-trimpath $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@

$(VULN):
	@GOBIN=$(TOOLS) GOFLAGS=-trimpath $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(TOOLS)/govulncheck $@

$(DEAD):
	@GOBIN=$(TOOLS) GOFLAGS=-trimpath $(GO) install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)
	@mv $(TOOLS)/deadcode $@
