-- The account that clients of the API name: the store has one. And when each queue was last purged.
ALTER TABLE jadpo_broker ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE jadpo_queues ADD COLUMN purged_at INTEGER;

-- Who consumes a queue, if not a function of the app that runs on the store: one for each queue. What is set for it is
-- the queue's.
CREATE TABLE jadpo_queue_consumers (
    queue TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    script TEXT,
    environment TEXT,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Tokens of the API: of each one's secret only a hash. `queues` is a list in JSON; an empty one stands for all.
CREATE TABLE jadpo_api_tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    may_read INTEGER NOT NULL,
    may_write INTEGER NOT NULL,
    queues TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) WITHOUT ROWID;

UPDATE jadpo_broker SET version = 4, account = lower(hex(randomblob(16)));
