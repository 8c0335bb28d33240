#!/bin/sh
# Checks an inventory, records its plan, and asks the staging hosts whether they drifted from it. Changes nothing.
#   staging.sh INVENTORY [FOLDER]     FOLDER takes the artefacts: plan.json, plan.txt, drift.json (default: artefacts)
# Options for every command, such as overrides: SLIPWAY_OPTIONS="--data engine.kind=simulator"
# Exit: 0 converged, 2 changes pending, 1 an error.
set -u
inventory=${1:?usage: staging.sh INVENTORY [FOLDER]}
artefacts=${2:-artefacts}
mkdir -p "$artefacts" || exit 1

# shellcheck disable=SC2086 # the options are words
slipway check ${SLIPWAY_OPTIONS:-} "$inventory" || exit 1

# shellcheck disable=SC2086
slipway plan ${SLIPWAY_OPTIONS:-} "$inventory" >"$artefacts/plan.txt" || exit 1
# shellcheck disable=SC2086
slipway plan --json ${SLIPWAY_OPTIONS:-} "$inventory" >"$artefacts/plan.json" || exit 1

# shellcheck disable=SC2086
slipway drift --json ${SLIPWAY_OPTIONS:-} "$inventory" >"$artefacts/drift.json"
code=$?
case $code in
0) echo "$inventory: the hosts are as planned" ;;
2) echo "$inventory: changes are pending, listed in $artefacts/drift.json" ;;
*) echo "$inventory: drift could not be told; see error in $artefacts/drift.json" >&2 ;;
esac
exit $code
