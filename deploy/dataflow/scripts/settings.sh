# For `source`, by the numbered scripts: the settings that 01_create_infrastructure.sh has stored.
# SETTINGS names another file, JOB_IMAGE another image than the newest of 02_build_image.sh.
# shellcheck shell=bash
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ! -f ${SETTINGS:=$scripts/settings.env} ]]; then
  echo "error: there is no $SETTINGS: run 01_create_infrastructure.sh first" >&2
  exit 2
fi
# shellcheck source=/dev/null
source "$SETTINGS"

# Prints the image that jobs use.
job_image() {
  if [[ -z ${JOB_IMAGE:-} && ! -f $scripts/image.txt ]]; then
    echo "error: there is no image: run 02_build_image.sh first, or set JOB_IMAGE" >&2
    return 2
  fi
  echo "${JOB_IMAGE:-$(cat "$scripts/image.txt")}"
}
