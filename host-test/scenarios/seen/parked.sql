SELECT json_object(
    'connection', connection, 'queue', queue, 'message', message_id, 'reason', reason, 'detail', detail,
    'event', event, 'key', key, 'attempts', attempts, 'to_be_read_again', retry_at IS NOT NULL,
    'body', CASE typeof(body) WHEN 'text' THEN body END,
    'body_hex', CASE typeof(body) WHEN 'blob' THEN hex(body) END
) AS seen FROM jadpo_parked_messages ORDER BY id
