#!/usr/bin/env bash
# Create or change all that jobs need: buckets, network, identities, registry, alerts.
#
#   cp deploy/dataflow/terraform/terraform.tfvars.example deploy/dataflow/terraform/terraform.tfvars
#   deploy/dataflow/scripts/01_create_infrastructure.sh [options of `terraform apply`]
#
# The other scripts read what it has created from settings.env beside them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

terraform -chdir="$here/../terraform" init
terraform -chdir="$here/../terraform" apply "$@"
settings=$(terraform -chdir="$here/../terraform" output -raw settings)
printf '%s\n' "$settings" > "$here/settings.env"
echo "settings: $here/settings.env"
