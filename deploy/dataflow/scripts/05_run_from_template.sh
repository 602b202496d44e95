#!/usr/bin/env bash
# Run a job from the template. Its launcher runs in the cloud, so that this needs gcloud alone.
#
#   deploy/dataflow/scripts/05_run_from_template.sh OBJECTIVE INPUT TOKENIZER OUTPUT [flags ...]
#
#   deploy/dataflow/scripts/05_run_from_template.sh bert gs://BUCKET/sample/wiki.sample.tokens \
#     gs://BUCKET/sample/tokenizer.json gs://BUCKET/bert --num-shards 4 --seed 1
#
# INPUT may be several files, globs and folders, separated by spaces. The job's id is the last line.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
if (($# < 4)); then
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
objective=$1 input=$2 tokenizer=$3 output=$4
shift 4
flags=$(printf ' %q' --temp-location "gs://$TEMPORARY_BUCKET/runs" "$@")

image=$(job_image)
parameters=(
  "objective=$objective" "input=$input" "tokenizer=$tokenizer" "output=$output" "flags=${flags# }"
  "sdk_container_image=$image"
)
# gcloud splits the parameters at commas, unless the list begins with the name of another separator.
separator=';;'
for parameter in "${parameters[@]}"; do
  if [[ $parameter == *"$separator"* ]]; then
    echo "error: $parameter: parameters cannot contain $separator" >&2
    exit 2
  fi
done
joined=$(printf "$separator%s" "${parameters[@]}")

gcloud dataflow flex-template run "$NAME-$objective-$(date -u +%Y%m%d-%H%M%S)" \
  --project="$PROJECT" --region="$REGION" --template-file-gcs-location="$TEMPLATE" \
  --impersonate-service-account="$LAUNCHER" --service-account-email="$WORKER" \
  --subnetwork="$SUBNETWORK" --disable-public-ips \
  --temp-location="gs://$TEMPORARY_BUCKET/beam" --staging-location="gs://$TEMPORARY_BUCKET/staging" \
  --additional-user-labels="application=$NAME,objective=$objective" \
  --parameters="^$separator^${joined#"$separator"}" --format="value(job.id)"
