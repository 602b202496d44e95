#!/usr/bin/env bash
# Build the image of launcher and workers with Cloud Build, from the wheels of this checkout.
#
#   deploy/dataflow/scripts/02_build_image.sh [TAG]
#
# TAG is the version of the wheels by default. PYTHON_VERSION=3.12 names another Python than 3.11.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
cd "$here/../../.."

python=${PYTHON_VERSION:-3.11}
# The wheel has kernels for one Python.
make wheels PYTHON="python$python" ENV=".venv-$python"
wheel=$(basename dist/corpusmill_job-*.whl)
version=${wheel#corpusmill_job-}
# Tags have no plus sign, which versions of commits without a tag have.
version=${version%%-*}
tag=${1:-${version//+/-}}

gcloud builds submit . \
  --project="$PROJECT" --region="$REGION" \
  --config=deploy/dataflow/cloudbuild.yaml --ignore-file=deploy/dataflow/gcloudignore \
  --service-account="$BUILDER" --gcs-source-staging-dir="gs://$TEMPORARY_BUCKET/builds" \
  --substitutions="_IMAGE=$IMAGE:$tag,_PYTHON=$python,_LAUNCHER=python${python//./}"
echo "$IMAGE:$tag" > "$here/image.txt"
echo "image: $IMAGE:$tag"
