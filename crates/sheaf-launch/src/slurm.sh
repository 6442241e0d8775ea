#!/bin/bash
# A run of Sheaf as one job of Slurm, made by `sheaf launch slurm`.
#
# This script runs on the first host of the allocation. It starts an agent on each other host, a step of the job each, and the run here. The
# agents start the nodes that run.toml places on their hosts:
@PLACEMENT@
#
#SBATCH --job-name=sheaf
#SBATCH --nodes=@HOSTS@
#SBATCH --no-kill
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --export=NONE
#SBATCH --signal=B:TERM@@SIGNAL_S@
#SBATCH --chdir=@PLACE@
#SBATCH --output=@LOG@
@MORE_OPTIONS@
set -u
sheaf=@PROGRAM@
directory=@DIRECTORY@
key=@KEY@
configuration=$directory/run-$SLURM_JOB_ID.toml

# The time limit is near, or `scancel --batch --signal=TERM` asks for the end: the run ends in good order.
run=
interrupted=
trap 'interrupted=1; [ -z "$run" ] || kill -TERM "$run"' TERM

@TAKE_RUN@

# The hosts of the allocation, and the address by which Slurm reaches each.
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if [ "${#hosts[@]}" -lt @HOSTS@ ]; then
    echo "error: the allocation has ${#hosts[@]} hosts, and the configuration needs @HOSTS@" >&2
    exit 1
fi
addresses=()
edits=
for index in "${!hosts[@]}"; do
    for attempt in 1 2 3 4 5 6; do
        address=$(scontrol show node "${hosts[index]}" | grep -o 'NodeAddr=[^ ]*')
        [ -z "$address" ] || break
        echo "warning: scontrol does not know the address of ${hosts[index]} (attempt $attempt of 6)" >&2
        sleep 10
    done
    addresses[index]=${address#NodeAddr=}
    if [ -z "${addresses[index]}" ]; then
        echo "error: the address of ${hosts[index]} is not known" >&2
        exit 1
    fi
    edits+="s/@HOST@$index:/${addresses[index]}:/;"
    echo "host $index of the run is ${hosts[index]}, ${addresses[index]}"
done

# The configuration with these addresses.
(umask 077; sed "$edits" "$directory/run.toml" > "$configuration") || exit 1

# Keeps an agent on a host: $1 is its index. A host that is lost does not end the job; its agent is started again when the host is back.
keep_agent() {
    local step='' pause=2 begun
    trap '[ -z "$step" ] || kill "$step" 2>/dev/null; exit' TERM
    while true; do
        begun=$SECONDS
        srun --job-name="agent-$1" --nodes=1 --ntasks=1 --nodelist="${hosts[$1]}" --overlap --mem=0 \
            --no-kill --kill-on-bad-exit=0 --wait=0 --export=NONE --input=none \
            "$sheaf" agent --key "$key" --listen "${addresses[$1]}:@PORT@" &
        step=$!
        wait "$step"
        echo "warning: the agent on ${hosts[$1]} has ended with status $?; it is started again in $pause s" >&2
        sleep "$pause"
        pause=$((SECONDS - begun > 120 ? 2 : pause < 60 ? 2 * pause : 60))
    done
}

agents=()
for ((index = 1; index < @HOSTS@; index++)); do
    keep_agent "$index" &
    agents+=($!)
done

[ -z "$interrupted" ] || exit 1
take_run

# All files are closed. The end of this script would end the agents, too.
[ "${#agents[@]}" = 0 ] || kill "${agents[@]}"
wait
echo "the run has ended with status $status"
exit "$status"
