#!/usr/bin/env bash
# Write the template's specification, which names the image and describes its parameters.
#
#   deploy/dataflow/scripts/03_build_template.sh [IMAGE:TAG]
#
# The image is the one of 02_build_image.sh by default.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
image=$(JOB_IMAGE=${1:-${JOB_IMAGE:-}} job_image)

gcloud dataflow flex-template build "$TEMPLATE" \
  --project="$PROJECT" --image="$image" --sdk-language=PYTHON \
  --metadata-file="$here/../metadata.json"
echo "template: $TEMPLATE"
