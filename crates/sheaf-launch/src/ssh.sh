#!/bin/bash
# A run of Sheaf on several hosts, made by `sheaf launch ssh`.
#
# This script starts an agent on each other host by ssh, and the run here. The agents start the nodes that run.toml places on their hosts:
@PLACEMENT@
set -u
sheaf=@PROGRAM@
directory=@DIRECTORY@
key=@KEY@
# Agents that have been started: a host and a process in each line.
processes=$directory/processes
cd @PLACE@ || exit 1

if [ -e "$processes" ]; then
    echo "error: $processes is there: another launch uses the same directory, or has been killed; end-agents.sh ends its agents" >&2
    exit 1
fi

# Starts the agent of a host: $1 is the host, $2 is what the shell there runs. It gets the key on its standard input.
start_agent() {
    local process
    process=$(ssh -o BatchMode=yes "$1" "$2" < "$key")
    if [ -z "$process" ]; then
        echo "error: ssh has not started the agent on $1" >&2
        bash "$directory/end-agents.sh"
        exit 1
    fi
    echo "$1 $process" >> "$processes"
    echo "the agent on $1 is process $process"
}

# Ctrl-C reaches the run by itself.
run=
interrupted=
trap 'interrupted=1; [ -z "$run" ] || kill -TERM "$run"' TERM HUP
trap 'interrupted=1' INT

@TAKE_RUN@

touch "$processes" || exit 1
@AGENTS@
status=1
if [ -z "$interrupted" ]; then
    take_run
fi
bash "$directory/end-agents.sh"
exit "$status"
