#!/usr/bin/env bash
# Wait until a job has ended; the status is 0 if it is done, 1 if it failed or was cancelled, and 124 if it has not ended
# after SECONDS_TO_WAIT (a day by default). SECONDS_BETWEEN two looks are 20.
#
#   deploy/dataflow/scripts/06_wait.sh JOB_ID
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=settings.sh
source "$here/settings.sh"
job=${1:?the id of a job}
limit=${SECONDS_TO_WAIT:-86400}

last=
while true; do
  state=$(gcloud dataflow jobs describe "$job" --project="$PROJECT" --region="$REGION" \
    --format='value(currentState)')
  if [[ $state != "$last" ]]; then
    echo "$(date -u +%H:%M:%S) $state"
    last=$state
  fi
  case $state in
    JOB_STATE_DONE) exit 0 ;;
    '')
      echo "error: job $job has no state" >&2
      exit 1
      ;;
    JOB_STATE_FAILED | JOB_STATE_CANCELLED | JOB_STATE_DRAINED | JOB_STATE_UPDATED) exit 1 ;;
  esac
  if ((SECONDS >= limit)); then
    echo "error: job $job has not ended after $limit seconds (SECONDS_TO_WAIT), and goes on." \
      "Wait again: $0 $job" >&2
    exit 124
  fi
  sleep "${SECONDS_BETWEEN:-20}"
done
