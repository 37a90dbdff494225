// The least that a queue's consumer can do: insert each message into D1, one round trip a batch.
export default {
  async queue(batch, env) {
    const insert = env.DB.prepare("INSERT INTO messages (id, body, received_at) VALUES (?, ?, ?)");
    const now = Date.now();
    await env.DB.batch(batch.messages.map(({ id, body }) => insert.bind(id, JSON.stringify(body), now)));
  },
};
