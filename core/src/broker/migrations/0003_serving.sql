-- What the server that last started on this store runs, as JSON, for commands that open the store beside it or after it.
CREATE TABLE jadpo_serving (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    told TEXT NOT NULL
);

UPDATE jadpo_broker SET version = 3;
