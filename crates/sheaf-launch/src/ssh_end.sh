#!/bin/bash
# Ends the agents that start.sh has started, and with them their nodes; made by `sheaf launch ssh`.
set -u
processes=@DIRECTORY@/processes
[ -e "$processes" ] || exit 0

left=0
while read -r host process <&3; do
    # The number may belong to another process by now.
    if ! ssh -o BatchMode=yes "$host" "case \"\$(ps -o args= -p $process)\" in *' agent --key '*) kill -TERM $process ;; esac"; then
        echo "warning: the agent on $host, process $process, cannot be ended" >&2
        left=1
    fi
done 3< "$processes"

# With the file, the agents that are left can be ended later.
[ "$left" = 1 ] || rm "$processes"
exit "$left"
