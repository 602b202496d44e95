#!/usr/bin/env bash
# Run a job from this machine, and watch it to its end. This needs `pip install corpusmill-job`, of
# the image's version of Beam and Python.
#
#   deploy/dataflow/scripts/05_run_from_here.sh OBJECTIVE [flags] [-- options of Beam]
#
#   deploy/dataflow/scripts/05_run_from_here.sh bert --input gs://BUCKET/sample/wiki.sample.tokens \
#     --tokenizer gs://BUCKET/sample/tokenizer.json --output gs://BUCKET/bert -- --max_num_workers=8
#
# With `--no-wait` it ends once the job is submitted; with `-- --dry_run=True` nothing is submitted.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
if (($# == 0)) || [[ $1 == -* ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi

flags=()
while (($#)) && [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift $(($# > 0))

image=$(job_image)
options=(
  --project="$PROJECT" --region="$REGION" --temp_location="gs://$TEMPORARY_BUCKET/beam"
  --sdk_container_image="$image"
  --impersonate_service_account="$LAUNCHER" --service_account_email="$WORKER"
  --subnetwork="$SUBNETWORK" --no_use_public_ips
  --job_name="$NAME-${flags[0]}-$(date -u +%Y%m%d-%H%M%S)"
  --labels="application=$NAME" --labels="objective=${flags[0]}"
)
exec "${CORPUSMILL:-corpusmill}" "${flags[0]}" --temp-location "gs://$TEMPORARY_BUCKET/runs" \
  "${flags[@]:1}" --runner DataflowRunner -- "${options[@]}" "$@"
