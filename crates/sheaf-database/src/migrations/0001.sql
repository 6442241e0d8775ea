CREATE TABLE run (
    run BIGINT NOT NULL,
    created_ns BIGINT NOT NULL,
    host TEXT NOT NULL,
    directory TEXT NOT NULL,
    state TEXT NOT NULL,
    software TEXT NOT NULL,
    configuration_name TEXT,
    configuration_id TEXT NOT NULL,
    started_ns BIGINT,
    triggers_ended_ns BIGINT,
    ended_ns BIGINT,
    end_reason TEXT,
    end_detail TEXT,
    lost BIGINT NOT NULL,
    run_ns BIGINT,
    live_ns BIGINT,
    quality TEXT,
    record TEXT NOT NULL,
    PRIMARY KEY (run, created_ns)
);
CREATE INDEX run_of_directory ON run (host, directory);
CREATE TABLE run_ledger (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    bin TEXT NOT NULL, events BIGINT NOT NULL
);
CREATE INDEX run_ledger_of_run ON run_ledger (run, created_ns);
CREATE TABLE run_dead_time (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    cause TEXT NOT NULL, dead_ns BIGINT NOT NULL
);
CREATE INDEX run_dead_time_of_run ON run_dead_time (run, created_ns);
CREATE TABLE run_culprit (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    cause TEXT NOT NULL, node TEXT NOT NULL, dead_ns BIGINT NOT NULL
);
CREATE INDEX run_culprit_of_run ON run_culprit (run, created_ns);
CREATE TABLE run_file (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    file TEXT NOT NULL, stream TEXT NOT NULL, events BIGINT NOT NULL, bytes BIGINT NOT NULL, crc32c TEXT
);
CREATE INDEX run_file_of_run ON run_file (run, created_ns);
CREATE TABLE run_code (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    part TEXT NOT NULL, path TEXT NOT NULL, bytes BIGINT NOT NULL, crc32c TEXT NOT NULL
);
CREATE INDEX run_code_of_run ON run_code (run, created_ns);
CREATE TABLE run_setting (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    name TEXT NOT NULL, value TEXT NOT NULL
);
CREATE INDEX run_setting_of_run ON run_setting (run, created_ns);
CREATE TABLE run_exclusion (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX run_exclusion_of_run ON run_exclusion (run, created_ns);
CREATE TABLE run_comment (
    run BIGINT NOT NULL, created_ns BIGINT NOT NULL,
    time_ns BIGINT NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL, quality TEXT
);
CREATE INDEX run_comment_of_run ON run_comment (run, created_ns);
CREATE TABLE run_number (last BIGINT NOT NULL);
INSERT INTO run_number (last) VALUES (0);
