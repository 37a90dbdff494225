// The deployable's entry: it hands the program to the Worker and exports what Cloudflare calls.
import program from "./program.json"; // as text: the Wrangler file's rule says so
globalThis.jadpoProgram = program;

export { default, Deliveries } from "./worker.js";
