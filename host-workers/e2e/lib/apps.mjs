// The app that the tests run: one queue with its dead-letter queue, one event, subscribers as a test wants them.

/** The app's text. Subscribers are lines of the app file's `subscribers` block. */
export function warehouse({ event = STOCK_MOVED, id = "movement_id", subscribers = [], queue = "warehouse-events" } = {}) {
  return `app: "warehouse"

connections: {
    warehouse_queue: {
        driver: Driver.cloudflare_queues
        queue: "${queue}"
        dead_letter_queue: "${queue}-dead"
    }
}

events: {
    StockMoved: ${event}
}

receiving: {
    warehouse_queue: { event: StockMoved${id ? `, id: "${id}"` : ""} }
}

subscribers: {
${subscribers.map((line) => `    ${line}`).join("\n")}
}

deployables: {
    edge: { target: Target.workers, triggers: [Trigger.http, Trigger.subscribers, Trigger.tick] }
}
`;
}

const STOCK_MOVED = "{ sku: Text, quantity: Int, moved_at: Instant, note: Text? }";

/** A message that the app keeps; `changes` replace or add fields. */
export function movement(number, changes = {}) {
  return {
    movement_id: `mv-${number}`,
    sku: `SKU-${number}`,
    quantity: number,
    moved_at: "2026-11-30T12:00:00Z",
    ...changes,
  };
}

export const QUEUE = "warehouse-events";
export const DEAD = "warehouse-events-dead";
export const TOKEN = "a-token-of-the-operator";
