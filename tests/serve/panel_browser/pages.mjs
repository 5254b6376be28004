// Every page in light, dark and narrow: no serious accessibility problem, no console error, no
// refused style or script, nothing wider than the window. Model output stays text.
import { base, must, open, problems, run, signIn, sound } from "./browser.mjs";

const LOOKS = [
  { colorScheme: "light" },
  { colorScheme: "dark" },
  { colorScheme: "light", viewport: { width: 380, height: 800 } },
];

await run(async () => {
  for (const look of LOOKS) {
    const { browser, page } = await open(look);
    page.on("dialog", (it) => { problems.push(`a dialog: ${it.message()}`); it.dismiss(); });
    await page.goto(`${base}/`);
    await sound(page);
    await signIn(page);
    await page.goto(`${base}/experiments/before/runs`);
    const ids = await page.locator("input[name=run]").evaluateAll((all) => all.map((it) => it.value));
    const paths = [
      "/", "/experiments/before", "/experiments/before/grid", "/experiments/before/runs",
      "/judges/before", "/experiments/before/history", `/runs/${ids[0]}`,
      `/compare-runs?run=${ids[0]}&run=${ids.at(-1)}`, "/promotions?experiment=before", "/run/new",
      "/jobs", "/tokens", "/desk", "/desk/before", "/experiments/nowhere", "/nowhere",
      "/judges/before/auto", "/experiments/before/runs?order=best", "/api-docs", "/experiments/long/runs",
      "/experiments/before?split=confirmation", "/experiments/before/runs?split=confirmation",
      "/optimise", "/optimise/before",
    ];
    for (const path of paths) {
      await page.goto(base + path);
      await sound(page);
    }
    await page.goto(`${base}/experiments/long/runs`);
    const hidden = await page.locator(".scroll").evaluate((it) => it.scrollWidth - it.clientWidth);
    must(look.viewport || hidden <= 0, `${hidden} px of the runs are out of sight`);
    await page.goto(`${base}/runs/${ids[0]}`);
    must(await page.locator("main img, main script").count() === 0, "model output stays text");
    await browser.close();
  }
});
