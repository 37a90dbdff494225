interface Mail {
	to: string;
	text: string;
}

interface Env {
	MAILS: Queue<Mail>;
	DB: D1Database;
}

export default {
	/** POST / asks for a mail, POST /subscribers/ADDRESS adds a subscriber, GET / lists what was sent. */
	async fetch(request, env) {
		const { pathname } = new URL(request.url);
		if (request.method === "GET") {
			const { results } = await env.DB.prepare("SELECT address, text FROM mails ORDER BY rowid").all();
			return Response.json(results);
		}
		if (pathname.startsWith("/subscribers/")) {
			const address = decodeURIComponent(pathname.slice("/subscribers/".length));
			await env.DB.prepare("INSERT OR IGNORE INTO subscribers VALUES (?)").bind(address).run();
			return new Response(null, { status: 204 });
		}
		await env.MAILS.send(await request.json<Mail>());
		return new Response(null, { status: 202 });
	},

	/** Each message is settled by itself, and may come again: its id is the mail's. */
	async queue(batch, env) {
		for (const message of batch.messages) {
			const { to, text } = message.body;
			if (!to?.includes("@")) {
				console.warn(`no address: ${JSON.stringify(to)}`);
				message.retry({ delaySeconds: 2 ** message.attempts });
				continue;
			}
			await env.DB.prepare("INSERT OR IGNORE INTO mails VALUES (?, ?, ?)").bind(message.id, to, text).run();
			console.log(`sent to ${to}`);
			message.ack();
		}
	},

	/** The clock only hands out the work: a message for each subscriber. */
	async scheduled(controller, env) {
		const { results } = await env.DB.prepare("SELECT address FROM subscribers").all<{ address: string }>();
		const text = `It is ${new Date(controller.scheduledTime).toISOString()}`;
		for (let at = 0; at < results.length; at += 100) {
			await env.MAILS.sendBatch(results.slice(at, at + 100).map(({ address }) => ({ body: { to: address, text } })));
		}
	},
} satisfies ExportedHandler<Env, Mail>;
