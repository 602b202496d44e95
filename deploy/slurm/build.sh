#!/bin/bash
# One build by all nodes of a Slurm job. Change what follows, and the command below, then:
#
#   sbatch deploy/slurm/build.sh
#
# One rank on each node, with a worker for each of its processors:
#SBATCH --job-name=corpusmill
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#
# Two minutes before the limit (Slurm may take a minute more), the ranks note what is finished and end,
# and this script puts the job into the queue again. With B:USR1, Slurm would signal this script alone.
#SBATCH --signal=USR1@120
# Slurm itself does so where a node is lost. (With --no-kill, the others would go on, but if the first node
# is lost, nothing would end the job before its limit.)
#SBATCH --requeue
#SBATCH --open-mode=append

output=/shared/out
# Since Slurm 22.05, srun does not take this from sbatch by itself.
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK

srun --kill-on-bad-exit=0 --wait=0 \
    corpusmill bert --input /shared/corpus --tokenizer /shared/tokenizer.json --output "$output" --resume
status=$?

# The largest status of all ranks: also that of one without which the others have gone on.
[[ -e $output/_SUCCESS ]] && exit 0
# Ended by a signal, such as the one before the limit.
if [[ $status -gt 128 && ${SLURM_RESTART_COUNT:-0} -lt 100 ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
