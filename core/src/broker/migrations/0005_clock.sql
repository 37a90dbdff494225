-- What the steady clock of the machine showed when clock_ms was written down, for commands beside a server; NULL until
-- then.
ALTER TABLE jadpo_broker ADD COLUMN steady_ms INTEGER;

UPDATE jadpo_broker SET version = 5;
