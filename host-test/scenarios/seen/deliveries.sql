SELECT json_object(
    'subscriber', subscriber, 'attempt', attempt, 'error', error, 'waits_s', (due_at - changed_at) / 1000,
    'key', (SELECT key FROM jadpo_events WHERE jadpo_events.seq = jadpo_deliveries.seq),
    'state', CASE WHEN due_at >= 9007199254740991 THEN 'failed' WHEN claim IS NOT NULL THEN 'running' ELSE 'waiting' END
) AS seen FROM jadpo_deliveries ORDER BY seq, subscriber
