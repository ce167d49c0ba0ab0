# Sluice: every task of this repository. `make` alone lists them.
#
# Needs: Go and make. `make test` installs the rest (see scripts/install-test-tools).

GO      ?= go
BIN     := bin
TOOLS   := .bin
GOFMT   := $(shell $(GO) env GOROOT)/bin/gofmt

# The commit is stamped into the program when git can read it; a missing git, an
# export without .git or a checkout that belongs to someone else must not stop a build.
BUILDVCS := $(shell git rev-parse --verify --quiet HEAD >/dev/null 2>&1 && echo auto || echo false)
GOBUILD  := CGO_ENABLED=0 $(GO) build -buildvcs=$(BUILDVCS) -trimpath -ldflags='-s -w'

# The systems that the daemon must compile for.
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64

# A program of the tests that is a module of its own, so that what it needs stays out of go.mod.
ASYNQ := internal/e2e/clients/asynq

SCRIPTS := .ci/run $(wildcard scripts/*) deploy/compose/bench.sh

TEST_TIMEOUT ?= 20m
TEST_FLAGS   ?=
FUZZ_TIME    ?= 10s
BENCH_FLAGS  ?=
IMAGE        ?= sluice:dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

## Daily work

.PHONY: help
help: ## list these targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^## / {printf "\n%s\n", substr($$0, 4)} \
		/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: ## build and start sluiced with an embedded backend on 127.0.0.1:6380
	@mkdir -p $(BIN)
	$(GOBUILD) -o $(BIN)/sluiced ./cmd/sluiced
	exec ./$(BIN)/sluiced serve

.PHONY: build
build: ## build every program into bin/
	@mkdir -p $(BIN)
	$(GOBUILD) -o $(BIN)/ ./cmd/...

.PHONY: test
test: test-tools ## install what the tests need, then run all of them with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./...
	@# A simulated seed runs on one goroutine, so the race detector only makes it slow: thousands more without it.
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) $(TEST_FLAGS) ./internal/sim

.PHONY: generate
generate: ## regenerate the command table from a running redis-server 7.0
	$(GO) generate ./internal/command

.PHONY: compatibility
compatibility: test-tools ## run the examples of every command and write docs/compatibility.md
	$(GO) test -count=1 ./internal/e2e -run '^TestCompatibility$$' -update

.PHONY: format
format: ## format all Go files
	$(GOFMT) -w .

## Checks

.PHONY: check
check: check-format check-scripts check-tidy check-vet check-lint check-generated check-cross check-api test ## everything that CI runs

.PHONY: check-format
check-format: ## fail when gofmt would change a file
	@files=$$($(GOFMT) -l .) && if [ -n "$$files" ]; then \
		echo "not formatted (run 'make format'):"; echo "$$files"; exit 1; fi

.PHONY: check-scripts
check-scripts: ## shellcheck where it is installed, else the shell's own syntax check
	@if command -v shellcheck >/dev/null 2>&1; then shellcheck $(SCRIPTS); \
	else for script in $(SCRIPTS); do sh -n $$script || exit 1; done; fi

.PHONY: check-tidy
check-tidy: ## fail when go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd $(ASYNQ) && $(GO) mod tidy -diff

.PHONY: check-vet
check-vet: ## go vet
	$(GO) vet ./...
	cd $(ASYNQ) && $(GO) vet ./...

.PHONY: check-lint
check-lint: $(TOOLS)/golangci-lint ## golangci-lint, at the version pinned in tools/go.mod
	$(TOOLS)/golangci-lint run

.PHONY: check-generated
check-generated: ## fail when the command table is not what its generator writes
	@sh scripts/check-generated

.PHONY: check-api
check-api: test-tools ## lint the admin API's description and send what it allows and forbids (needs node, python3)
	@GO='$(GO)' sh scripts/check-api

.PHONY: check-cross
check-cross: ## compile the programs for every supported system
	@for platform in $(PLATFORMS); do \
		echo "compile $$platform"; \
		mkdir -p $(BIN)/$$platform; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GOBUILD) -o $(BIN)/$$platform/ ./cmd/... || exit 1; \
	done

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZ_TIME (10s)
	@FUZZ_TIME=$(FUZZ_TIME) GO='$(GO)' sh scripts/fuzz

.PHONY: cover
cover: test-tools ## write coverage.html
	$(GO) test -timeout=$(TEST_TIMEOUT) -coverpkg=./internal/...,./pkg/... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	@$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: bench
bench: test-tools ## measure proxy against direct; reports go to bench/results
	$(GO) run ./bench/cmd/sluicebench $(BENCH_FLAGS)

## Delivery and housekeeping

.PHONY: docker
docker: ## build the container image (IMAGE=sluice:dev)
	docker build --tag $(IMAGE) .

.PHONY: test-tools
test-tools: ## install redis-server 7 and a C compiler where they are missing
	@GO='$(GO)' sh scripts/install-test-tools

.PHONY: tools
tools: $(TOOLS)/golangci-lint ## build the pinned developer tools into .bin/

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS) coverage.out coverage.html

# Built once per version: the tools are a module of their own, so that their
# dependencies never reach the daemon's go.mod. `go build … tool` builds all of them.
$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	cd tools && $(GO) build -buildvcs=false -o ../$(TOOLS)/ tool
	@touch $@
