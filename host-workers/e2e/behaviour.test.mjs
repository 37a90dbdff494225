// The behaviour suite (host-test/scenarios) on the Worker, in real workerd on real D1.

import { after, describe, test } from "node:test";
import { scenarioFiles } from "./lib/scenarios.mjs";
import { Stage } from "./lib/stage.mjs";

const chosen = process.env.JADPO_SCENARIO ?? "";

for (const { file, scenarios } of scenarioFiles()) {
  describe(file, () => {
    let stage;
    after(() => stage?.stop());
    for (const scenario of scenarios.filter(({ says }) => `${file}: ${says}`.includes(chosen))) {
      const { says, notOn } = scenario;
      test(says, { skip: notOn.workers }, async () => {
        const own = stage ?? (await Stage.start(scenario));
        stage = undefined;
        try {
          await own.play(scenario);
          stage = own; // only one that came through is used again
        } finally {
          if (!stage) await own.stop();
        }
      });
    }
  });
}
