# Paddock. `make` alone lists what there is.
#
# run and test need Go, git and make. race needs a C compiler too. lint, format and vuln
# build their tools once, at the versions below, into .tools (not in git).

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
DEADCODE_VERSION    := v0.52.0

GO     ?= go
TOOLS  := $(CURDIR)/.tools
LINT   := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
VULN   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)
DEAD   := $(TOOLS)/deadcode-$(DEADCODE_VERSION)
BINARY := bin/paddock

# What the longer targets run on; the rest of a command line can narrow them,
# for example `make prop PKG=./internal/core/hint N=1000000`.
PKG   ?= ./...
N     ?= 100000
T     ?= 20s
COUNT ?= 1
KILLS ?= 50
IDLE  ?= 60s

.DEFAULT_GOAL := help
.PHONY: help run plan build test check arch generate generated deadcode lint format race prop fuzz bench crash idle golden record-check vuln e2e e2e-kubelet stall clean

help: ## This list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# What `run` and `plan` decide about, and where `run` keeps what it holds (not in git).
EXAMPLE := --machine examples/machines/epyc-2s-nps4.json --kubelet-config examples/kubelet/pod-scope.yaml
HOME_OF_RUN := .paddock

run: plan ## Show the plan, then run the agent on the example pods until Ctrl-C.
	@mkdir -p $(HOME_OF_RUN)
	@[ -d $(HOME_OF_RUN)/pods ] || cp -R examples/pods $(HOME_OF_RUN)/pods
	@echo
	@echo "The agent holds these pods now. Edit $(HOME_OF_RUN)/pods, kill it, start it again; in another terminal:"
	@echo "  $(BINARY) pods --socket $(HOME_OF_RUN)/podresources.sock"
	@echo "  curl -s http://127.0.0.1:9925/metrics"
	@exec $(BINARY) agent $(EXAMPLE) --pods $(HOME_OF_RUN)/pods --state $(HOME_OF_RUN)/state.json \
	    --podresources-socket $(HOME_OF_RUN)/podresources.sock

# Exit status 2 of paddock says that some pods were refused: here that is an answer.
plan: build ## Plan the example pods on an example machine.
	@$(BINARY) plan $(EXAMPLE) examples/pods/ || [ $$? -eq 2 ]

build: ## Build bin/paddock.
	@$(GO) build -o $(BINARY) ./cmd/paddock

test: ## All tests, as they run on every change.
	$(GO) test $(PKG)

check: arch lint test race ## What a change must pass: import rules, format, lint, tests, race.

arch: ## The import rules and the other rules of the house (internal/arch).
	$(GO) test ./internal/arch

generate: ## The String methods of enumerations, with stringer (a tool of go.mod).
	$(GO) generate ./...

# What is generated is in git: `lint` fails where it is not what `generate` makes.
GENERATED = find . -name enum_string.go | sort | xargs sha256sum
generated:
	@before=$$($(GENERATED)); $(GO) generate ./... && [ "$$before" = "$$($(GENERATED))" ] || \
	    { echo "lint: generated files are not as 'make generate' makes them: commit what it made"; exit 1; }

# What is linked into the command and never called: what only tests use is in a test file or in a package for
# tests (internal/arch has the list). The second run finds what not even a test uses.
deadcode: $(DEAD) ## Functions that nothing calls, or only tests.
	@for what in "./cmd/paddock" "-test ./..."; do \
	    found=$$($(DEAD) $$what) || exit 1; [ -z "$$found" ] || { echo "$$found"; echo "deadcode $$what: remove them, or move them to a test file"; exit 1; }; \
	done

# Other modules may print and wait. test/record compiles Kubernetes, minutes the first time.
lint: $(LINT) generated deadcode ## golangci-lint, which reports unformatted files too.
	$(LINT) run $(PKG)
	cd test/e2e && $(LINT) run --disable depguard,forbidigo
	cd test/record && $(LINT) run --disable depguard,forbidigo

format: $(LINT) ## Format all Go files and group their imports.
	$(LINT) fmt
	cd test/e2e && $(LINT) fmt
	cd test/record && $(LINT) fmt

race: ## All tests under the race detector; needs a C compiler.
	CGO_ENABLED=1 $(GO) test -race $(PKG)

# Only the tests of files that use rapid are run, package by package, so that the lines tell
# how far it is. rapid prints how to repeat a failure.
prop: ## Property tests at N checks each: make prop N=100000 [PKG=./internal/core/hint].
	@set -e; dirs=$$($(GO) list -f '{{$$d := .Dir}}{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$$d}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "pgregory.net/rapid"}}{{$$d}}{{"\n"}}{{end}}{{end}}' $(PKG) | sort -u); \
	total=$$(echo "$$dirs" | grep -c .) || { echo "no package of $(PKG) has property tests"; exit 1; }; i=0; failed=; \
	for dir in $$dirs; do \
	    i=$$((i + 1)); \
	    tests=$$(grep -l '"pgregory.net/rapid"' $$dir/*_test.go | xargs grep -ohE '^func Test[A-Za-z0-9_]+' | awk '{ print $$2 }' | paste -sd '|' -); \
	    echo "[$$i/$$total] $${dir#$(CURDIR)/}, $(N) checks each"; \
	    $(GO) test -v -count=1 -timeout=0 -run "^($$tests)\$$" $$dir -rapid.checks=$(N) || failed="$$failed $${dir#$(CURDIR)/}"; \
	done; \
	[ -z "$$failed" ] || { echo "property tests failed in:$$failed"; exit 1; }

fuzz: ## Every fuzz target for T: make fuzz T=20s [PKG=./internal/podspec].
	@set -e; failed=; \
	for dir in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' $(PKG)); do \
	    grep -qs '^func Fuzz' $$dir/*_test.go || continue; \
	    for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
	        echo "$${dir#$(CURDIR)/}: $$target, $(T)"; \
	        $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(T) $$dir || failed="$$failed $$target"; \
	    done; \
	done; \
	[ -z "$$failed" ] || { echo "fuzz targets failed:$$failed"; exit 1; }

bench: ## All benchmarks: make bench COUNT=10 > new.txt, for benchstat.
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) -timeout 0 $(PKG)

# The second is the real binary: kill -9 at random moments while manifests come and go.
crash: build ## 10,000 histories with a crash after every operation; KILLS kills of a real agent.
	$(GO) test -count=1 -v -run '^TestCrash$$' ./internal/engine -rapid.checks=1000
	PADDOCK=$(CURDIR)/$(BINARY) $(GO) test -count=1 -v -timeout 0 -run '^TestKill$$' ./cmd/paddock -kills=$(KILLS)

# Freezes a real file system, on a loop device: as root. Elsewhere the test says that it was skipped.
stall: ## Ten seconds without a disk: every request of the runtime is answered within one.
	$(GO) test -count=1 -v -run '^TestFrozenDisk$$' ./internal/agent -freeze=10s

idle: build ## Memory and CPU of an agent that holds 250 pods of four containers for IDLE.
	PADDOCK=$(CURDIR)/$(BINARY) $(GO) test -count=1 -v -timeout 0 -run '^TestFootprint' ./cmd/paddock -idle=$(IDLE)

# The verdicts on state files are no scenarios; tests read them.
golden: build ## Replay the reference's answers and compare.
	$(BINARY) replay --check $(filter-out %/state-verdicts.jsonl.gz,$(wildcard testdata/golden/*.jsonl.gz))

# A module of its own, the only one with k8s.io/kubernetes; see test/record/README.md.
record-check: ## The reference gives every recorded answer again; the first build takes minutes.
	cd test/record && $(GO) vet . && $(GO) test -count=1 -timeout 30m .

# govulncheck says 3 for findings, and 1 for everything else that went wrong. That its database
# cannot be reached (no network, a closed one) is no fault of the code, and is said.
vuln: $(VULN) ## Known vulnerabilities in what is called; needs the Go vulnerability database.
	@set +e; out=$$($(VULN) ./... 2>&1); status=$$?; echo "$$out"; \
	if [ $$status -eq 1 ] && echo "$$out" | grep -q 'fetching vulnerabilities'; then \
	    echo "vuln: NOT CHECKED: the vulnerability database cannot be reached from here."; \
	    [ -z "$$PADDOCK_LACKS" ] || echo vulnerability-database >>"$$PADDOCK_LACKS"; \
	    exit 0; \
	fi; exit $$status

# A module of its own. Needs QEMU and some Debian packages, which it installs where it may, and
# keeps what takes long to build in ~/.cache/paddock-e2e; see test/e2e/README.md.
e2e: ## The agent beside a real containerd, in virtual machines with several NUMA nodes.
	cd test/e2e && $(GO) vet ./... && $(GO) test -v -count=1 -timeout 60m .

e2e-kubelet: ## The same, and a real kubelet; building that takes minutes, once.
	cd test/e2e && E2E_KUBELET=1 $(GO) test -v -count=1 -timeout 60m .

clean: ## Remove what was built; .tools stays.
	rm -rf bin

$(LINT):
	@echo "building golangci-lint $(GOLANGCI_VERSION) (a minute or two, once)"
	@GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@

$(VULN):
	@GOBIN=$(TOOLS) GOFLAGS= $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(TOOLS)/govulncheck $@

$(DEAD):
	@GOBIN=$(TOOLS) GOFLAGS= $(GO) install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)
	@mv $(TOOLS)/deadcode $@
