#!/bin/bash
# Four nodes with eight GPUs each: sbatch examples/cluster/slurm.sh
#SBATCH --job-name=digits
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=01:00:00
#SBATCH --signal=TERM@120 # SIGTERM two minutes before the end, for PreemptionCheckpointHandler

# One launcher per node. The number of nodes, the rank of this node and the address of the first node come from
# SLURM's variables. One process per node uses all of its GPUs: --nproc 1.
srun gradtape launch --nproc 1 --max-restarts 3 --logs "logs/$SLURM_JOB_ID" \
    examples/cluster/train.py --checkpoints "$PWD/checkpoints/$SLURM_JOB_ID"
