"""Every call for queues of the SDK, against the server that the environment names."""

import asyncio
import base64
import os

from cloudflare import (
    AsyncCloudflare,
    AuthenticationError,
    BadRequestError,
    Cloudflare,
    ConflictError,
    NotFoundError,
)

ACCOUNT = os.environ["CLOUDFLARE_ACCOUNT_ID"]


def settings():
    return {
        "api_token": os.environ["CLOUDFLARE_API_TOKEN"],
        "base_url": os.environ["CLOUDFLARE_API_BASE_URL"],
        "max_retries": 0,
    }


def refused(kind, call, *args, code=None, **named):
    """The call must be refused in this way."""
    try:
        call(*args, **named)
    except kind as error:
        if code is not None:
            assert error.errors[0].code == code, error
    else:
        raise AssertionError(f"{call} was not refused")


def queues(client):
    made = client.queues.create(account_id=ACCOUNT, queue_name="mail")
    queue = made.queue_id
    assert made.queue_name == "mail" and made.settings.message_retention_period == 345_600
    assert client.queues.get(queue, account_id=ACCOUNT) == made
    edited = client.queues.edit(queue, account_id=ACCOUNT, settings={"delivery_paused": True})
    assert edited.settings.delivery_paused is True
    updated = client.queues.update(
        queue, account_id=ACCOUNT, queue_name="mail", settings={"delivery_delay": 0}
    )
    assert updated.settings.delivery_paused is False
    assert "mail" in [listed.queue_name for listed in client.queues.list(account_id=ACCOUNT)]
    assert client.queues.get_metrics(queue, account_id=ACCOUNT).backlog_count == 0
    return queue


def consumers(client, queue):
    added = client.queues.consumers.create(
        queue, account_id=ACCOUNT, type="http_pull", settings={"batch_size": 10, "max_retries": 2}
    )
    one = added.consumer_id
    assert added.settings.batch_size == 10 and added.settings.visibility_timeout_ms == 30_000
    assert client.queues.consumers.get(one, account_id=ACCOUNT, queue_id=queue) == added
    assert [listed.consumer_id for listed in client.queues.consumers.list(queue, account_id=ACCOUNT)] == [one]
    changed = client.queues.consumers.update(
        one, account_id=ACCOUNT, queue_id=queue, type="http_pull", settings={"visibility_timeout_ms": 60_000}
    )
    assert changed.settings.visibility_timeout_ms == 60_000
    refused(
        ConflictError,
        client.queues.consumers.create,
        queue,
        account_id=ACCOUNT,
        type="worker",
        script_name="mailer",
        code=11004,
    )
    return one


def messages(client, queue):
    sent = client.queues.messages.push(queue, account_id=ACCOUNT, body={"n": 1}, content_type="json")
    assert sent.metadata.metrics.backlog_count == 1
    client.queues.messages.bulk_push(
        queue,
        account_id=ACCOUNT,
        messages=[
            {"body": "zwei", "content_type": "text"},
            {"body": "later", "content_type": "text", "delay_seconds": 3600},
        ],
    )
    peeked = client.queues.messages.peek(queue, account_id=ACCOUNT, batch_size=10)
    assert [message.attempts for message in peeked.messages] == [0, 0, 0]
    removed = client.queues.messages.purge(
        queue, account_id=ACCOUNT, refs=[{"ref": message.ref} for message in peeked.messages if message.body == "later"]
    )
    assert removed.errors == [] and removed.warnings == {}
    pulled = client.queues.messages.pull(queue, account_id=ACCOUNT, batch_size=10, visibility_timeout_ms=60_000)
    assert pulled.message_backlog_count == 2
    one, two = pulled.messages
    assert base64.b64decode(one.body) == b'{"n":1}' and two.body == "zwei", pulled
    assert one.metadata["CF-Content-Type"] == "json"
    acked = client.queues.messages.ack(
        queue,
        account_id=ACCOUNT,
        acks=[{"lease_id": one.lease_id}, {"lease_id": "none"}],
        retries=[{"lease_id": two.lease_id, "delay_seconds": 0}],
    )
    assert (acked.ack_count, acked.retry_count, list(acked.warnings)) == (1, 1, ["none"]), acked
    (again,) = client.queues.messages.pull(queue, account_id=ACCOUNT).messages
    assert (again.id, again.attempts) == (two.id, 2)
    refused(
        BadRequestError,
        client.queues.messages.push,
        queue,
        account_id=ACCOUNT,
        body=5,
        content_type="text",
        code=10203,
    )


def purge(client, queue):
    assert client.queues.purge.status(queue, account_id=ACCOUNT).completed == ""
    assert client.queues.purge.start(queue, account_id=ACCOUNT, delete_messages_permanently=True).queue_id == queue
    assert client.queues.purge.status(queue, account_id=ACCOUNT).completed == "true"
    assert client.queues.get_metrics(queue, account_id=ACCOUNT).backlog_count == 0


def subscriptions(client):
    calls = client.queues.subscriptions
    assert list(calls.list(account_id=ACCOUNT)) == []
    refused(BadRequestError, calls.create, account_id=ACCOUNT, name="x")
    refused(NotFoundError, calls.get, "x", account_id=ACCOUNT)
    refused(NotFoundError, calls.update, "x", account_id=ACCOUNT, enabled=False)
    refused(NotFoundError, calls.delete, "x", account_id=ACCOUNT)


async def side_by_side():
    """The asynchronous client: ten pull from one queue, and each message goes to one of them."""
    async with AsyncCloudflare(**settings()) as client:
        made = await client.queues.create(account_id=ACCOUNT, queue_name="many")
        queue = made.queue_id
        await client.queues.consumers.create(queue, account_id=ACCOUNT, type="http_pull")
        batch = [{"body": str(number), "content_type": "text"} for number in range(100)]
        await client.queues.messages.bulk_push(queue, account_id=ACCOUNT, messages=batch)
        pulls = (client.queues.messages.pull(queue, account_id=ACCOUNT, batch_size=10) for _ in range(10))
        pulled = [message for answer in await asyncio.gather(*pulls) for message in answer.messages]
        assert sorted(int(message.body) for message in pulled) == list(range(100))
        acks = [{"lease_id": message.lease_id} for message in pulled]
        acked = await client.queues.messages.ack(queue, account_id=ACCOUNT, acks=acks)
        assert acked.ack_count == 100


def main():
    client = Cloudflare(**settings())
    queue = queues(client)
    consumer = consumers(client, queue)
    messages(client, queue)
    purge(client, queue)
    subscriptions(client)
    assert client.queues.consumers.delete(consumer, account_id=ACCOUNT, queue_id=queue).success
    assert client.queues.delete(queue, account_id=ACCOUNT).success
    refused(NotFoundError, client.queues.get, queue, account_id=ACCOUNT, code=10104)
    stranger = Cloudflare(**{**settings(), "api_token": "jadpo_x_y"})
    refused(AuthenticationError, stranger.queues.list, account_id=ACCOUNT, code=10000)
    asyncio.run(side_by_side())
    print("every call was made")


main()
