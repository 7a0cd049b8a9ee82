# vfix: all builds and tests start here. `make help` lists the targets.

PREFIX   ?= /usr/local
FUZZTIME ?= 20s
GUIDED   ?= 1
# The test of a release builds its files three times, which takes a tenth of the time of all tests: make test-release.
RELEASE_TESTS = tests/130-dist.bats
FILES    ?= $(filter-out $(RELEASE_TESTS),$(wildcard tests/*.bats))

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOJQ        = github.com/itchyny/gojq/cmd/gojq@v0.12.17
NFPM        = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
PROGRAM    ?= bin/vfix
# Code that is built only with a tag: the pages of a release, and the tests that use engines.
TAGS        = share engines

# Go keeps its caches and settings below HOME.
ifeq ($(HOME),)
export HOME := $(shell getent passwd $$(id -u) | cut -d: -f6)
endif
# The go on PATH if it is new enough for go.mod, else the one that tests/install-deps downloads.
ifeq ($(origin GO),undefined)
GO := $(shell tests/install-deps --print-go)
endif
export GO
# The build, the tests and the linters have the same flags, so that each package is compiled once, and
# without debug information, which takes a tenth of the compiler's time (make GOFLAGS=-gcflags=all= keeps it).
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false $(GOFLAGS)
# GOGC for compilers: for many short programs, garbage collection costs a fifth of their time, and memory is cheap.
SHORT = 400
GOFMT = $(shell $(GO) env GOROOT)/bin/gofmt

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   = -s -w -X main.version=$(VERSION) -X main.commit=$(shell git rev-parse HEAD 2>/dev/null) $(if $(ISSUES),-X main.issues=$(ISSUES))
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

BUILD    = tests/build
RESULTS  = $(BUILD)/results
C_TESTS  = $(wildcard tests/oracle/*.c tests/vm/*.c tests/injected/*.c tests/kubernetes/*.c)
ORACLES  = $(patsubst tests/oracle/%.c,$(BUILD)/%,$(wildcard tests/oracle/*.c))

.DEFAULT_GOAL := all

.PHONY: need-go
need-go:
	@$(GO) version >/dev/null 2>&1 || { echo "make: no Go that is new enough: run tests/install-deps as root" >&2; exit 1; }

# On Debian, checks the requirements of the build and the fixtures before a linker fails.
.PHONY: need-deps
need-deps:
	@tests/install-deps --check

.PHONY: all
all: need-go runtime ## build bin/vfix and bin/vfix-runtime (the default)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(PROGRAM) ./cmd/vfix

# The program that vfix embeds: vfix-runtime, which engines execute at each start of a container.
.PHONY: runtime
runtime: need-go shim
	GOOS=linux GOARCH=amd64 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/vfix-runtime
	gzip -6 -n <bin/vfix-runtime >bin/vfix-runtime.gz
	mv bin/vfix-runtime.gz cmd/vfix/embedded/programs/

.PHONY: shim
shim: ## build the code that is injected into legacy programs
	$(MAKE) -C shim/src

.PHONY: deps
deps: ## install what building and testing need (Debian, as root), Go included
	tests/install-deps

fixtures fallback: need-deps
-include tests/fixtures/fixtures.mk

.PHONY: oracles
oracles: $(ORACLES) ## build the programs that show whether something calls the vsyscall page
$(BUILD)/%: tests/oracle/%.c tests/oracle/page.h
	@mkdir -p $(@D)
	gcc -static -O1 -Wall -Wextra -Werror -o $@ $<

.PHONY: validate
validate: need-go ## build the program that recomputes every digest of an OCI layout
	$(GO) build -o $(BUILD)/validate ./tests/validate

# A jq that starts in a seventh of the time: Debian's 1.6 compiles its own library at each of thousands of starts.
JQ = $(BUILD)/tools/jq
$(JQ):
	GOBIN='$(CURDIR)/$(@D)' $(GO) install -ldflags='-s -w' $(GOJQ)
	mv $(@D)/gojq $@

.PHONY: check
check: need-go shim format ## run all checks without root, engine or VM: format, vet, shellcheck, Go tests; a few minutes
	$(GO) vet -tags '$(TAGS)' ./...
	@if command -v shellcheck >/dev/null; then tests/lint-shell; else echo "check: shellcheck is not installed: scripts are not checked"; fi
	tests/run-unit $(BUILD)/check ./...

.PHONY: test
test: ## install what is missing, run all tests (as root on Debian 12), and print how many passed, failed and were skipped
	@rm -rf $(RESULTS)
	@tests/install-deps
	@$(MAKE) --no-print-directory --jobs $(shell nproc) --output-sync=target tested # downloads and compilers in parallel
	@status=0; \
	$(MAKE) --no-print-directory test-unit || status=1; \
	$(MAKE) --no-print-directory test-e2e || status=1; \
	tests/summary $(RESULTS) || status=1; \
	exit $$status

.PHONY: test-unit
test-unit: need-go shim fixtures oracles ## run the Go tests
	tests/run-unit $(RESULTS) ./...

.PHONY: tested
tested: export GOGC = $(SHORT)
tested: all fixtures oracles validate legacy-image $(JQ)

.PHONY: test-e2e
test-e2e: tested ## run the end-to-end tests (as root), or only FILES=tests/020-engines.bats
	tests/run-e2e $(RESULTS) $(FILES)

.PHONY: test-release
test-release: tested ## build the files of a release twice, and use them (as root)
	tests/run-e2e $(BUILD)/release $(RELEASE_TESTS)

.PHONY: test-engines
test-engines: all oracles legacy-image $(BUILD)/pause ## check with current engines (as root), or only ENGINES='sid:docker trixie:podman'
	tests/engines/run $(ENGINES)

# The later version is for the upgrade; at the end, bin/ has this version again.
NEXT = $(BUILD)/kubernetes/next
.PHONY: test-kubernetes
test-kubernetes: oracles legacy-image $(BUILD)/pause ## check with a Kubernetes node (as root); the first run builds Kubernetes, which takes long
	@mkdir -p $(NEXT)
	$(MAKE) all VERSION=$(VERSION)-next PROGRAM=$(NEXT)/vfix
	mv bin/vfix-runtime $(NEXT)/
	$(MAKE) all
	tests/kubernetes/run

$(BUILD)/pause: tests/kubernetes/pause.c
	gcc -static -Os -s -Wall -Wextra -Werror -o $@ $<

.PHONY: test-fresh
test-fresh: ## run README's commands twice in a fresh Debian 12 (as root), the second time without TZ, LANG and HOME
	tests/fresh $(BUILD)/fresh

.PHONY: bench
bench: need-go need-deps all fixtures ## measure calls, the start of vfix, scans and rebuilds, each beside what it is compared with
	tests/bench -v bin/vfix

.PHONY: fuzz
fuzz: need-go shim ## run each fuzz target for FUZZTIME (20s), guided by coverage, or not (GUIDED=0)
	tests/run-fuzz $(FUZZTIME) $(GUIDED)

.PHONY: test-repeat
test-repeat: need-go shim ## run the tests of changed files (SINCE=main) 20 times (TIMES) on loaded processors
	tests/run-repeat $(or $(TIMES),20) $(or $(SINCE),main)

.PHONY: race
race: need-go shim ## run the Go tests of packages with goroutines with the race detector
	tests/run-race

.PHONY: test-peers
test-peers: all oracles ## list differences: other tools on patched programs; the test suites of runc, OCI's runtime-tools and the kernel (as root)
	tests/peers/run $(BUILD)/peers
	tests/peers/vsyscall $(BUILD)/peers-vsyscall
	tests/peers/validation $(BUILD)/peers-validation
	tests/peers/runc $(BUILD)/peers-runc

.PHONY: test-mutants
test-mutants: need-go shim ## make small changes to PKG (./host/node), and list those that its tests do not detect (as root)
	@test -n "$(PKG)" || { echo "make: name a package: make test-mutants PKG=./host/node" >&2; exit 2; }
	$(GO) build -o $(BUILD)/mutants ./tests/mutants
	$(BUILD)/mutants $(MUTANTS) $(PKG)

.PHONY: format
format: need-go
	@unformatted=$$($(GOFMT) -l $$(git ls-files -co --exclude-standard '*.go')); \
	test -z "$$unformatted" || { echo "not formatted (make fmt): $$unformatted" >&2; exit 1; }

.PHONY: lint
lint: export GOGC = $(SHORT)
lint: need-go shim format cross ## check format, vet, staticcheck, shellcheck, C warnings, other platforms
	$(GO) vet -tags '$(TAGS)' ./...
	$(GO) run $(STATICCHECK) -tags '$(TAGS)' ./...
	tests/lint-shell
	$(foreach file,$(C_TESTS),gcc -fsyntax-only -Wall -Wextra -Werror $(file) &&) true

.PHONY: cross
cross: need-go shim ## type-check vfix for the other platforms of users
	$(GO) run ./tests/platforms ./cmd/vfix $(filter-out $(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH),$(PLATFORMS))

.PHONY: fmt
fmt: need-go ## format the Go files
	$(GOFMT) -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: demo
demo: ## demonstrate vfix on a fresh Debian 12 (as root): crash before, run after, speed
	@tests/demo

.PHONY: install
install: all ## install to DESTDIR and PREFIX (/usr/local): vfix, man pages, completions, docs, licenses
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/$(notdir $(PROGRAM))
	VERSION='$(VERSION)' deploy/release/share $(PROGRAM) $(DESTDIR)$(PREFIX)/share

.PHONY: dist release
dist: need-go shim ## try the packaging: build the files of a release, without its checks and signature
release: need-go shim ## build a release into dist/, signed: packages, tarballs, image, SBOMs, licenses, provenance
dist release:
	NFPM='$(NFPM)' PLATFORMS='$(PLATFORMS)' VULNDB='$(VULNDB)' RELEASE=$(if $(filter release,$@),1) deploy/release/dist dist

.PHONY: vulncheck
vulncheck: need-go shim ## check that vfix calls no code with a known vulnerability
	$(GO) run $(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./cmd/...

.PHONY: clean
clean: ## remove all built files
	rm -rf bin dist shim/build $(BUILD)
	rm -f $(filter-out %/README.md,$(wildcard shim/embedded/* cmd/vfix/embedded/programs/*))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.DELETE_ON_ERROR:
