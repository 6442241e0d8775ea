# Takes the run to its end, whose status is in $status. A signal interrupts `wait`, and the run goes on.
take_run() {
    "$sheaf" run @RUN@ &
    run=$!
    interrupted=1
    while [ -n "$interrupted" ]; do
        interrupted=
        wait "$run"
        status=$?
    done
}
