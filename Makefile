# Everything a newcomer types. Each target works on a fresh clone; DATA passes overrides to pyinfra,
# such as: make deploy DATA="decode.tp=2 router.port=8080"
INVENTORY ?= inventory.py
ENGINE ?=
DATA ?=
YES ?=

BIN := $(CURDIR)/.venv/bin
# uv and slipway of .venv come first for what runs on this machine.
export PATH := $(BIN):$(PATH)

overrides := $(foreach item,$(DATA) $(if $(ENGINE),engine.kind=$(ENGINE)),--data $(item))
pyinfra := $(BIN)/pyinfra $(overrides) $(INVENTORY)

.PHONY: deploy plan dry status releases rollback destroy drift test test-full lint docs setup

setup: .venv/ready

.venv/ready: requirements.txt pyproject.toml scripts/setup
	@scripts/setup

deploy: setup
	@$(BIN)/pyinfra -y $(overrides) $(INVENTORY) deploy.py

plan: setup
	@$(BIN)/slipway plan $(overrides) $(INVENTORY)

dry: setup
	@$(BIN)/pyinfra --dry $(overrides) $(INVENTORY) deploy.py

drift: setup
	@$(BIN)/slipway drift $(overrides) $(INVENTORY)

status: setup
	@$(BIN)/pyinfra -y $(overrides) $(INVENTORY) playbooks/status.py

releases: setup
	@$(BIN)/pyinfra -y $(overrides) $(INVENTORY) playbooks/releases.py

rollback: setup
	@$(BIN)/pyinfra -y $(overrides) $(INVENTORY) playbooks/rollback.py

destroy: setup
	@$(BIN)/pyinfra $(if $(filter 1,$(YES)),-y) $(overrides) $(INVENTORY) playbooks/destroy.py

test: setup
	@scripts/test

test-full: setup
	@scripts/test --full

lint: setup
	@scripts/lint

docs: setup
	@$(BIN)/python -m scripts.reference
