# anycastlab's commands. Each works on a machine that has never seen the project, as root or with sudo, and twice.
.PHONY: lab test test-router check bench clean-lab venv venv-dev setup test-tools

BIN := .venv/bin

# The Python environment; does nothing when it is up to date.
venv:
	@scripts/bootstrap

# … with what tests and linters need.
venv-dev:
	@scripts/bootstrap --dev

# Incus, its storage and the tools to build an image; says what it will change and asks on a terminal.
setup: venv
	@$(BIN)/anycastlab setup

# The main job: the whole lab on this machine, then what it looks like.
lab: setup
	@$(BIN)/anycastlab doctor
	@$(BIN)/anycastlab up
	@$(BIN)/anycastlab status

# What the tests need beyond the lab: a browser for the report page, dnsperf, a foreign architecture.
test-tools: setup
	@scripts/test-tools

# Lint, format, types, the order of the packages, and code that nothing uses.
check: venv-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture

# Everything: unit, contract and lab tests. The lab tests build a lab of their own beside yours.
# Four at a time, a file each (`tests/order.py`): many of them wait for something to happen, so two processors are enough.
# What fails beside others is tried once more alone, and both tries are shown: a promise in milliseconds is only as good
# as the machine.
test: check test-tools
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder || $(BIN)/pytest --last-failed --last-failed-no-failures none

# Against a real router or CHR that ANYCASTLAB_ROUTER=user:password@host names; asks first, leaves it as it was.
test-router: venv-dev
	@test -n "$$ANYCASTLAB_ROUTER" || { echo "Set ANYCASTLAB_ROUTER=user:password@host."; exit 1; }
	$(BIN)/pytest tests/real

# Measured ratios and medians; takes a while, changes only a lab of its own.
bench: setup
	$(BIN)/python -m bench

clean-lab: venv
	@$(BIN)/anycastlab down -y
