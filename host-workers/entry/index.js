// The Worker's entry: gives the program to the host and names what Cloudflare calls.
import { WorkerEntrypoint } from "cloudflare:workers";
import program from "./program.json"; // as text, by the rule in wrangler.json
import Worker from "./worker.js";

globalThis.jadpoProgram = program;

export default Worker;

/** Goes on with deliveries that an earlier invocation had no time for, in the time of an invocation of its own. */
export class Deliveries extends WorkerEntrypoint {
  async goOn() {
    await new Worker(this.ctx, this.env).deliveries(this.env, this.ctx);
  }
}
