-- What a consumer says is done of a message, kept from a retry to the next attempt, and with a dead letter for the
-- day it is put back.
ALTER TABLE jadpo_queue_due ADD COLUMN progress TEXT;
ALTER TABLE jadpo_queue_messages ADD COLUMN dead_progress TEXT;

-- Messages that are sent once per key: the key (a hash of it and its scope), the first message's id, and the age from
-- which it is remembered.
CREATE TABLE jadpo_queue_once (
    key BLOB PRIMARY KEY,
    id BLOB NOT NULL,
    kept_from INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX jadpo_queue_once_by_age ON jadpo_queue_once (kept_from);

-- Triggers, as far as anything is known of them that the app does not say: a row is made when there is.
CREATE TABLE jadpo_triggers (
    name TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL DEFAULT 1,
    run_at INTEGER,
    run_done INTEGER,
    run_error TEXT,
    run_message BLOB,
    last_occurrence INTEGER
) WITHOUT ROWID;

CREATE TABLE jadpo_webhook_tokens (
    name TEXT PRIMARY KEY,
    token TEXT NOT NULL
) WITHOUT ROWID;

-- Tasks that put dead letters back. end_seq is the first number that the task does not reach; (at_due, at_seq) is the
-- place of the last letter that it looked at; free_at_us is when the next may move, in microseconds of the broker's
-- time.
CREATE TABLE jadpo_redrives (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT,
    origin TEXT,
    reason TEXT,
    error_contains TEXT,
    ids TEXT NOT NULL,
    died_from INTEGER,
    died_until INTEGER,
    most INTEGER,
    rate_per_s INTEGER,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    end_seq INTEGER NOT NULL,
    letters INTEGER NOT NULL,
    at_due INTEGER NOT NULL,
    at_seq INTEGER NOT NULL,
    free_at_us INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    without_origin INTEGER NOT NULL
);

UPDATE jadpo_broker SET version = 2;
