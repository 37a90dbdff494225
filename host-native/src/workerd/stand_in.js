// Answers for a Worker that is not here, and says what it was asked.

export default {
	async fetch(request, env) {
		const body = await request.text();
		console.log(`${request.method} ${request.url}`, body.slice(0, 1000));
		return new Response(`${env.NAME} is not here; this is a stand-in\n`);
	},
};
