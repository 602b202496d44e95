#!/usr/bin/env bash
# Check every byte, row and count of a data set in a bucket, and show some of its examples.
#
#   deploy/dataflow/scripts/07_verify.sh gs://BUCKET/FOLDER
#
# All shards are read: run it in the region of the bucket, where that is free.
set -euo pipefail
folder=${1:?the folder of a data set, such as gs://bucket/folder}

"${CORPUSMILL:-corpusmill}" verify "$folder"
"${CORPUSMILL:-corpusmill}" inspect "$folder" --examples 2
