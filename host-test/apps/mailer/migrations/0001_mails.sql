CREATE TABLE subscribers (address TEXT PRIMARY KEY);
CREATE TABLE mails (
    id TEXT PRIMARY KEY, -- the message's: a message that comes again is the same mail
    address TEXT NOT NULL,
    text TEXT NOT NULL
);
