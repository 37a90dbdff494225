SELECT json_object(
    'event', event, 'connection', connection, 'key', key, 'message', message_id,
    'body', CASE typeof(body) WHEN 'text' THEN body END,
    'body_hex', CASE typeof(body) WHEN 'blob' THEN hex(body) END
) AS seen FROM jadpo_events ORDER BY seq
