// The least that a queue's consumer with subscribers can do: insert each message into D1, then call every subscriber
// and note that it was. It keeps no retries, knows no repeats, and takes any message.
const CALLS = 5; // side by side, as the app

export default {
  async queue(batch, env, ctx) {
    const insert = env.DB.prepare("INSERT INTO messages (id, body, received_at) VALUES (?, ?, ?)");
    const now = Date.now();
    await env.DB.batch(batch.messages.map(({ id, body }) => insert.bind(id, JSON.stringify(body), now)));
    ctx.waitUntil(deliver(batch.messages, env));
  },
};

async function deliver(messages, env) {
  const calls = messages.flatMap((message) => Array(env.SUBSCRIBERS).fill(message));
  const lane = async () => {
    for (let message = calls.pop(); message; message = calls.pop()) {
      const signal = AbortSignal.timeout(15_000);
      const answer = await env.SUBSCRIBER.fetch("http://subscriber/", { method: "POST", body: JSON.stringify(message.body), signal });
      await answer.body?.cancel();
    }
  };
  await Promise.all(Array.from({ length: CALLS }, lane));
  const note = env.DB.prepare("UPDATE messages SET delivered = 1 WHERE id IN (SELECT value FROM json_each(?))");
  await note.bind(JSON.stringify(messages.map(({ id }) => id))).run();
}
