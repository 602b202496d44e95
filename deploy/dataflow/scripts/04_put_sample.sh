#!/usr/bin/env bash
# Put the bundled sample text and a tokenizer that is trained on it into the bucket, for a first job.
#
#   deploy/dataflow/scripts/04_put_sample.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
cd "$here/../../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${CORPUSMILL:-corpusmill}" train-tokenizer --input samples/wiki.sample.tokens --vocab-size 2000 \
  --output "$folder/tokenizer.json"
gcloud storage cp samples/wiki.sample.tokens "$folder/tokenizer.json" "gs://$DATA_BUCKET/sample/"
