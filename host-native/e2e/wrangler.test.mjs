// Wrangler's own commands for queues, unchanged, pointed here by its variables.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { require, started, surroundings } from "./lib/server.mjs";

const WRANGLER = join(dirname(require.resolve("wrangler/package.json")), "bin/wrangler.js");

/** Runs `wrangler queues` to its end. */
function wrangler(server, ...args) {
	const env = surroundings(server, { WRANGLER_SEND_METRICS: "false", CI: "true", HOME: server.folder, NO_COLOR: "1" });
	return new Promise((resolve) => {
		execFile(process.execPath, [WRANGLER, "queues", ...args], { cwd: server.folder, env }, (error, stdout, stderr) => {
			resolve({ code: error?.code ?? 0, said: stdout + stderr });
		});
	});
}

async function done(server, ...args) {
	const { code, said } = await wrangler(server, ...args);
	assert.equal(code, 0, `wrangler queues ${args.join(" ")}: ${said}`);
	return said;
}

async function queue(server, name) {
	const headers = { authorization: `Bearer ${server.token}` };
	const answer = await fetch(`${server.url}/accounts/${server.account}/queues?name=${name}`, { headers });
	return (await answer.json()).result[0];
}

test("wrangler makes, lists, shows, changes, pauses, empties and deletes queues", async (t) => {
	const server = await started(t);
	assert.match(await done(server, "create", "mail"), /Created queue 'mail'/);
	await done(server, "create", "set", "--delivery-delay-secs", "10", "--message-retention-period-secs", "100");
	assert.deepEqual((await queue(server, "set")).settings, {
		delivery_delay: 10,
		delivery_paused: false,
		message_retention_period: 100,
	});
	const listed = await done(server, "list");
	assert.ok(listed.includes("mail") && listed.includes("set"), listed);
	const { queue_id } = await queue(server, "mail");
	assert.ok((await done(server, "info", "mail")).includes(queue_id));
	await done(server, "update", "set", "--delivery-delay-secs", "0");
	await done(server, "pause-delivery", "set");
	assert.deepEqual((await queue(server, "set")).settings, {
		delivery_delay: 0,
		delivery_paused: true,
		message_retention_period: 100,
	});
	await done(server, "resume-delivery", "set");
	assert.equal((await queue(server, "set")).settings.delivery_paused, false);
	server.jadpo("queues", "send", "mail", "hello");
	assert.match(await done(server, "purge", "mail", "--force"), /Purged Queue 'mail'/);
	const [shown] = server.jadpo("queues", "list", "--json").queues.filter(({ name }) => name === "mail");
	assert.equal(shown.messages, 0);
	assert.match(await done(server, "delete", "mail"), /Deleted queue mail/);
	assert.equal(await queue(server, "mail"), undefined);
});

test("wrangler lets a queue be pulled, and no more", async (t) => {
	const server = await started(t);
	await done(server, "create", "mail");
	await done(
		server,
		...["consumer", "http", "add", "mail", "--batch-size", "9", "--message-retries", "0"],
		...["--visibility-timeout-secs", "6", "--retry-delay-secs", "60", "--dead-letter-queue", "mail-dead"],
	);
	const [consumer] = (await queue(server, "mail")).consumers;
	assert.equal(consumer.dead_letter_queue, "mail-dead");
	assert.deepEqual(consumer.settings, {
		batch_size: 9,
		max_retries: 0,
		retry_delay: 60,
		visibility_timeout_ms: 6_000,
	});
	assert.match(await done(server, "info", "mail"), /HTTP Pull Consumer/);
	assert.ok((await done(server, "consumer", "http", "list", "mail")).includes(consumer.consumer_id));
	assert.ok((await done(server, "consumer", "list", "mail")).includes(consumer.consumer_id));
	await done(server, "consumer", "http", "remove", "mail");
	assert.deepEqual((await queue(server, "mail")).consumers, []);
	await done(server, "consumer", "http", "add", "mail");
	const [plain] = (await queue(server, "mail")).consumers;
	assert.deepEqual(plain.settings, { batch_size: 5, max_retries: 3, retry_delay: 0, visibility_timeout_ms: 30_000 });
});

test("wrangler adds and removes a Worker as a consumer, and is refused a second", async (t) => {
	const server = await started(t);
	await done(server, "create", "mail");
	await done(server, "consumer", "add", "mail", "mailer", "--batch-timeout", "5", "--max-concurrency", "4");
	const [consumer] = (await queue(server, "mail")).consumers;
	assert.deepEqual(consumer.settings, {
		batch_size: 10,
		max_concurrency: 4,
		max_retries: 3,
		max_wait_time_ms: 5_000,
		retry_delay: 0,
	});
	assert.match(await done(server, "info", "mail"), /worker:mailer/);
	const second = await wrangler(server, "consumer", "http", "add", "mail");
	assert.notEqual(second.code, 0);
	assert.match(second.said, /11004/);
	for (const part of ["`mail`", "the Worker `mailer`", "an http_pull consumer"]) {
		assert.ok(second.said.includes(part), second.said);
	}
	const removal = await wrangler(server, "consumer", "http", "remove", "mail");
	assert.notEqual(removal.code, 0);
	assert.match(removal.said, /No http_pull consumer exists/);
	assert.ok((await done(server, "consumer", "worker", "list", "mail")).includes("mailer"));
	await done(server, "consumer", "worker", "remove", "mail", "mailer");
	await done(server, "consumer", "worker", "add", "mail", "other");
	await done(server, "consumer", "remove", "mail", "other");
	assert.equal((await queue(server, "mail")).consumers_total_count, 0);
});

test("wrangler is told what is wrong: a queue that is not there, a name that is taken, a token that is none", async (t) => {
	const server = await started(t);
	const missing = await wrangler(server, "consumer", "http", "add", "nope");
	assert.notEqual(missing.code, 0);
	assert.match(missing.said, /"nope" does not exist[\s\S]*wrangler queues create nope/);
	await done(server, "create", "mail");
	const taken = await wrangler(server, "create", "mail");
	assert.notEqual(taken.code, 0);
	assert.match(taken.said, /11009/);
	const named = await wrangler(server, "create", "My Queue!!");
	assert.notEqual(named.code, 0);
	const long = await wrangler(server, "consumer", "http", "add", "mail", "--message-retries", "101");
	assert.notEqual(long.code, 0);
	assert.match(long.said, /100127/);
	const stranger = await wrangler({ ...server, token: "jadpo_x_y" }, "list");
	assert.notEqual(stranger.code, 0);
	assert.match(stranger.said, /10000/);
	const subscriptions = await done(server, "subscription", "list", "mail");
	assert.match(subscriptions, /No event subscriptions/);
});
