-- One row: the store's version, the number of the next event, and how far old events were cleared away.
CREATE TABLE jadpo_schema (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    version INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    pruned_seq INTEGER NOT NULL
);

-- What was kept before: the connection and the id, and the number of the event it became.
CREATE TABLE jadpo_received (
    connection TEXT NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (connection, key)
) WITHOUT ROWID;

-- The events, appended in the order they were kept. body is TEXT where it was text, BLOB where it was bytes.
CREATE TABLE jadpo_events (
    seq INTEGER PRIMARY KEY,
    connection TEXT NOT NULL,
    key TEXT NOT NULL,
    event TEXT NOT NULL,
    message_id TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    body BLOB NOT NULL
);

-- What is still to be delivered, in the order it falls due. A row goes when its delivery is done. due_at is the end
-- of the claim while it runs, the next attempt while it waits, and never (2^53 - 1) once it has failed.
CREATE TABLE jadpo_deliveries (
    due_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    subscriber TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    attempt_max INTEGER NOT NULL,
    claim TEXT,
    changed_at INTEGER NOT NULL,
    error TEXT,
    PRIMARY KEY (due_at, seq, subscriber)
) WITHOUT ROWID;

-- What could not become an event, whole. retry_at is set by an operator; the next tick reads the message again.
CREATE TABLE jadpo_parked_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    connection TEXT NOT NULL,
    queue TEXT NOT NULL,
    message_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    event TEXT,
    key TEXT,
    attempts INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    parked_at INTEGER NOT NULL,
    retry_at INTEGER,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (connection, message_id)
);

CREATE INDEX jadpo_parked_retry ON jadpo_parked_messages (retry_at) WHERE retry_at IS NOT NULL;

INSERT INTO jadpo_schema (only, version, next_seq, pruned_seq) VALUES (1, 1, 1, 0);
