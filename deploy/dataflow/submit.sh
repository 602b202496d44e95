#!/bin/sh
# Submit a job to Dataflow from a checkout. The environment has the settings that all jobs share.
#
#   PROJECT=my-project REGION=us-central1 BUCKET=my-temporary-bucket IMAGE=REGISTRY/corpusmill:1 \
#     deploy/dataflow/submit.sh bert --input 'gs://corpus/*.txt' --tokenizer gs://corpus/tokenizer.json \
#     --output gs://data/bert [-- further options of Beam]
#
# SERVICE_ACCOUNT=name@project.iam.gserviceaccount.com and SUBNETWORK=regions/R/subnetworks/S are
# optional; with a subnetwork the workers do not have public addresses.
set -eu
: "${PROJECT:?the project that pays}" "${REGION:?the region of the workers and of the buckets}"
: "${BUCKET:?a bucket for staged files, without gs://}" "${IMAGE:?the image of deploy/dataflow}"

flags=
beam=
after_dashes=
for argument in "$@"; do
  quoted="'$(printf %s "$argument" | sed "s/'/'\\\\''/g")'"
  if [ "$argument" = -- ] && [ -z "$after_dashes" ]; then
    after_dashes=yes
  elif [ -n "$after_dashes" ]; then
    beam="$beam $quoted"
  else
    flags="$flags $quoted"
  fi
done
eval "set -- $flags --runner DataflowRunner -- \
  --project=\"\$PROJECT\" --region=\"\$REGION\" --temp_location=\"gs://\$BUCKET/beam\" \
  --sdk_container_image=\"\$IMAGE\" \
  \${SERVICE_ACCOUNT:+\"--service_account_email=\$SERVICE_ACCOUNT\"} \
  \${SUBNETWORK:+\"--subnetwork=\$SUBNETWORK\" --no_use_public_ips} $beam"
exec "${PYTHON:-python}" -m pipeline "$@"
