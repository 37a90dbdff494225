// The official SDK of npm, unchanged: every call that it has for queues.

import assert from "node:assert/strict";
import { test } from "node:test";
import { require, started } from "./lib/server.mjs";

const Cloudflare = require("cloudflare");

const client = (server, more = {}) =>
	new Cloudflare({ apiToken: server.token, baseURL: server.url, maxRetries: 0, ...more });

test("the SDK makes, lists, changes, empties and deletes queues", async (t) => {
	const server = await started(t);
	const { queues } = client(server);
	const account_id = server.account;
	const made = await queues.create({ account_id, queue_name: "mail" });
	assert.equal(made.queue_name, "mail");
	assert.deepEqual(made.settings, {
		delivery_delay: 0,
		delivery_paused: false,
		message_retention_period: 345_600,
	});
	assert.ok(Date.parse(made.created_on) > 0 && Date.parse(made.modified_on) > 0);
	assert.deepEqual(await queues.get(made.queue_id, { account_id }), made);
	const edited = await queues.edit(made.queue_id, { account_id, settings: { delivery_paused: true } });
	assert.equal(edited.settings.delivery_paused, true);
	const updated = await queues.update(made.queue_id, {
		account_id,
		queue_name: "mail",
		settings: { delivery_delay: 7 },
	});
	assert.deepEqual([updated.settings.delivery_delay, updated.settings.delivery_paused], [7, false]);
	const names = [];
	for await (const queue of queues.list({ account_id })) names.push(queue.queue_name);
	assert.deepEqual(names, ["mail", "work", "work-dead"]);
	assert.deepEqual(await queues.getMetrics(made.queue_id, { account_id }), {
		backlog_bytes: 0,
		backlog_count: 0,
		oldest_message_timestamp_ms: 0,
	});
	assert.equal((await queues.purge.status(made.queue_id, { account_id })).completed, "");
	await queues.messages.push(made.queue_id, { account_id, body: "x" });
	const purged = await queues.purge.start(made.queue_id, { account_id, delete_messages_permanently: true });
	assert.equal(purged.queue_id, made.queue_id);
	const status = await queues.purge.status(made.queue_id, { account_id });
	assert.deepEqual([status.completed, status.started_at], ["true", purged.started_at]);
	assert.equal((await queues.getMetrics(made.queue_id, { account_id })).backlog_count, 0);
	const deleted = await queues.delete(made.queue_id, { account_id });
	assert.equal(deleted.success, true);
	await assert.rejects(queues.get(made.queue_id, { account_id }), (error) => {
		assert.ok(error instanceof Cloudflare.NotFoundError, error);
		assert.equal(error.errors[0].code, 10104);
		return true;
	});
});

test("the SDK adds, shows, changes and removes consumers", async (t) => {
	const server = await started(t);
	const { queues } = client(server);
	const account_id = server.account;
	const { queue_id } = await queues.create({ account_id, queue_name: "mail" });
	const added = await queues.consumers.create(queue_id, {
		account_id,
		type: "http_pull",
		dead_letter_queue: "mail-dead",
		settings: { batch_size: 20, max_retries: 2, retry_delay: 1, visibility_timeout_ms: 6_000 },
	});
	assert.deepEqual(added.settings, { batch_size: 20, max_retries: 2, retry_delay: 1, visibility_timeout_ms: 6_000 });
	assert.deepEqual(await queues.consumers.get(added.consumer_id, { account_id, queue_id }), added);
	const all = [];
	for await (const consumer of queues.consumers.list(queue_id, { account_id })) all.push(consumer);
	assert.deepEqual(all, [added]);
	const changed = await queues.consumers.update(added.consumer_id, {
		account_id,
		queue_id,
		type: "http_pull",
		settings: { max_retries: 0 },
	});
	assert.deepEqual([changed.settings.max_retries, changed.settings.batch_size], [0, 5]);
	await assert.rejects(
		queues.consumers.create(queue_id, { account_id, type: "worker", script_name: "mailer" }),
		(error) => error instanceof Cloudflare.ConflictError && error.errors[0].code === 11004,
	);
	assert.equal((await queues.consumers.delete(added.consumer_id, { account_id, queue_id })).success, true);
	const worker = await queues.consumers.create(queue_id, {
		account_id,
		type: "worker",
		script_name: "mailer",
		settings: { max_wait_time_ms: 250 },
	});
	assert.deepEqual([worker.script_name, worker.settings.max_wait_time_ms], ["mailer", 250]);
});

test("the SDK sends, pulls, settles, looks and removes", async (t) => {
	const server = await started(t, { dev: true });
	const { queues } = client(server);
	const account_id = server.account;
	const { queue_id } = await queues.create({ account_id, queue_name: "mail" });
	await queues.consumers.create(queue_id, { account_id, type: "http_pull" });
	const sent = await queues.messages.push(queue_id, { account_id, body: { n: 1 }, content_type: "json" });
	assert.equal(sent.metadata.metrics.backlog_count, 1);
	await queues.messages.bulkPush(queue_id, {
		account_id,
		messages: [
			{ body: "zwei", content_type: "text" },
			{ body: [3], content_type: "json" },
			{ body: "later", content_type: "text", delay_seconds: 3_600 },
		],
	});
	const peeked = await queues.messages.peek(queue_id, { account_id, batch_size: 10 });
	assert.deepEqual(peeked.messages.map((message) => message.attempts), [0, 0, 0, 0]);
	const later = peeked.messages.find((message) => message.body === "later");
	const removed = await queues.messages.purge(queue_id, { account_id, refs: [{ ref: later.ref }, { ref: "none" }] });
	assert.deepEqual([removed.errors, Object.keys(removed.warnings)], [[], ["none"]]);
	const pulled = await queues.messages.pull(queue_id, { account_id, batch_size: 10, visibility_timeout_ms: 60_000 });
	assert.equal(pulled.message_backlog_count, 3);
	assert.deepEqual(
		pulled.messages.map(({ body, attempts, metadata }) => [
			metadata["CF-Content-Type"] === "text" ? body : JSON.parse(Buffer.from(body, "base64")),
			attempts,
		]),
		[[{ n: 1 }, 1], ["zwei", 1], [[3], 1]],
	);
	const [one, two, three] = pulled.messages.map(({ lease_id }) => ({ lease_id }));
	const acked = await queues.messages.ack(queue_id, {
		account_id,
		acks: [one, three, { lease_id: "none" }],
		retries: [{ ...two, delay_seconds: 0 }],
	});
	assert.deepEqual([acked.ackCount, acked.retryCount, Object.keys(acked.warnings)], [2, 1, ["none"]]);
	const again = await queues.messages.pull(queue_id, { account_id });
	assert.deepEqual(again.messages.map(({ body, attempts }) => [body, attempts]), [["zwei", 2]]);
	const none = await queues.messages.ack(queue_id, { account_id });
	assert.deepEqual([none.ackCount, none.retryCount], [0, 0]);
});

test("the SDK is told apart what stops it: a pause, a token, too much", async (t) => {
	const server = await started(t);
	const { queues } = client(server);
	const account_id = server.account;
	const { queue_id } = await queues.create({ account_id, queue_name: "mail" });
	await assert.rejects(queues.messages.pull(queue_id, { account_id }), Cloudflare.BadRequestError);
	await queues.consumers.create(queue_id, { account_id, type: "http_pull" });
	await queues.edit(queue_id, { account_id, settings: { delivery_paused: true } });
	await assert.rejects(queues.messages.pull(queue_id, { account_id }), Cloudflare.ConflictError);
	const stranger = client({ ...server, token: "jadpo_x_y" });
	await assert.rejects(stranger.queues.get(queue_id, { account_id }), Cloudflare.AuthenticationError);
	const lost = client(server).queues.get(queue_id, { account_id: "0".repeat(32) });
	await assert.rejects(lost, Cloudflare.PermissionDeniedError);
	const body = "x".repeat(128_001);
	await assert.rejects(queues.messages.push(queue_id, { account_id, body, content_type: "text" }), (error) => {
		assert.deepEqual([error.status, error.errors[0].code], [413, 10204]);
		return true;
	});
	const { secret } = server.jadpo("tokens", "create", "reader", "--scopes", "read", "--json");
	const reader = client({ ...server, token: secret });
	await assert.rejects(reader.queues.messages.pull(queue_id, { account_id }), Cloudflare.PermissionDeniedError);
	assert.equal((await reader.user.tokens.verify()).status, "active");
});

test("the SDK finds that there are no subscriptions to events of Cloudflare's products", async (t) => {
	const server = await started(t);
	const { subscriptions } = client(server).queues;
	const account_id = server.account;
	const all = [];
	for await (const subscription of subscriptions.list({ account_id })) all.push(subscription);
	assert.deepEqual(all, []);
	const create = subscriptions.create({
		account_id,
		name: "x",
		enabled: true,
		events: ["bucket.created"],
		destination: { type: "queues.queue", queue_id: "0".repeat(32) },
		source: { type: "r2" },
	});
	await assert.rejects(create, Cloudflare.BadRequestError);
	await assert.rejects(subscriptions.get("x", { account_id }), Cloudflare.NotFoundError);
	await assert.rejects(subscriptions.update("x", { account_id, enabled: false }), Cloudflare.NotFoundError);
	await assert.rejects(subscriptions.delete("x", { account_id }), Cloudflare.NotFoundError);
});
