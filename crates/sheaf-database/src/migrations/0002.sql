CREATE TABLE run_command (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    time_ns BIGINT NOT NULL, operator TEXT NOT NULL, via TEXT, command TEXT NOT NULL, target TEXT, comment TEXT,
    result TEXT, detail TEXT, result_ns BIGINT
);
CREATE INDEX run_command_of_run ON run_command (run, created_ns);
