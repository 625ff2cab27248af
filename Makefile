.DEFAULT_GOAL := help
.PHONY: help setup check format test run pin fresh-machine

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## make .venv with everything that development needs
	scripts/setup dev

check: setup ## format, lint, types, architecture, tests
	scripts/check

format: setup ## format the code and repair what the linter can
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

test: ## the same as ./test
	./test

run: ## the same as ./run
	./run

pin: setup ## pin requirements/*.in again
	scripts/pin

fresh-machine: ## ./run --once and ./test on fresh Debian 12 machines (as root; most of an hour)
	scripts/fresh-machine
