// What most tests begin with: the app, its ledger, and workerd.

import { dirname } from "node:path";
import { warehouse } from "./apps.mjs";
import { build, removeFolder } from "./deployable.mjs";
import { subscriber } from "./subscriber.mjs";
import { start } from "./workerd.mjs";

/**
 * Builds the warehouse app with one HTTP subscriber, `ledger`, and starts it. Everything stops when the test ends.
 * `app` goes to `warehouse()`, its `subscribers` made from the ledger's address; the rest goes to `start()`.
 */
export async function scenario(test, { app = {}, ...settings } = {}) {
  const ledger = await subscriber();
  test.after(() => ledger.stop());
  const lines = app.subscribers ?? ((url) => [`ledger: { on: StockMoved, call: "${url}" }`]);
  const subscribers = lines(ledger.url);
  const folder = await build(warehouse({ ...app, subscribers }), { worker: settings.worker });
  test.after(() => removeFolder(dirname(folder)));
  const running = await start(folder, { batchWaitS: 0, ...settings });
  test.after(() => running.stop());
  return { running, ledger, folder };
}
