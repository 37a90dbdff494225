// The official SDK of PyPI, unchanged: a program in Python makes every call that it has for queues.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { started, surroundings } from "./lib/server.mjs";

test("the SDK for Python does all that it can do with queues", async (t) => {
	const python = process.env.JADPO_PYTHON;
	assert.ok(python, "JADPO_PYTHON names no Python that has the SDK; run this by `cargo xtask test --only e2e`");
	const server = await started(t);
	const program = fileURLToPath(new URL("python/queues.py", import.meta.url));
	const { code, said } = await new Promise((resolve) => {
		execFile(python, ["-I", program], { env: surroundings(server) }, (error, stdout, stderr) => {
			resolve({ code: error?.code ?? 0, said: stdout + stderr });
		});
	});
	assert.equal(code, 0, said);
	assert.match(said, /every call was made/);
});
