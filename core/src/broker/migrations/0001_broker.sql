-- One row: this schema's version, the key that lease ids are signed with, the first message number and queue number
-- that are not given out yet, and the broker's two clocks as last written down (see clock.rs).
CREATE TABLE jadpo_broker (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    version INTEGER NOT NULL,
    lease_key BLOB NOT NULL,
    next_seq INTEGER NOT NULL,
    next_queue INTEGER NOT NULL,
    clock_ms INTEGER NOT NULL,
    age_ms INTEGER NOT NULL
);

-- The queues. `queue` numbers the queue's present contents: a purge gives it a new number and leaves the old one to
-- be cleared away slice by slice. Numbers are never used twice.
CREATE TABLE jadpo_queues (
    name TEXT PRIMARY KEY,
    queue INTEGER NOT NULL UNIQUE,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    delivery_delay_s INTEGER NOT NULL,
    retention_s INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    batch_size INTEGER NOT NULL,
    batch_wait_ms INTEGER NOT NULL,
    max_retries INTEGER NOT NULL,
    retry_delay_s INTEGER NOT NULL,
    visibility_ms INTEGER NOT NULL,
    dead_letter_queue TEXT,
    max_concurrency INTEGER
) WITHOUT ROWID;

-- Contents whose queue was purged or deleted.
CREATE TABLE jadpo_queue_garbage (queue INTEGER PRIMARY KEY);

-- What was sent, written once and never changed. The body comes last, so that reading the rest does not read it.
CREATE TABLE jadpo_queue_messages (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    kept_from INTEGER NOT NULL,
    content INTEGER NOT NULL,
    meta TEXT,
    dead_queue TEXT,
    dead_attempts INTEGER,
    dead_first_at INTEGER,
    dead_last_at INTEGER,
    dead_reason TEXT,
    dead_error TEXT,
    body BLOB NOT NULL
);

-- Where each message stands, in small rows that are their own index. due_at is 0 for a message that is ready, the end
-- of the lease while it is leased (leased = 1), and else the time to wait for.
CREATE TABLE jadpo_queue_due (
    queue INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    first_at INTEGER,
    error TEXT,
    PRIMARY KEY (queue, due_at, seq)
) WITHOUT ROWID;

INSERT INTO jadpo_broker (only, version, lease_key, next_seq, next_queue, clock_ms, age_ms)
VALUES (1, 1, randomblob(32), 1, 1, 0, 0);
