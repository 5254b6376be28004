// The pages of prompt loops in light, dark and narrow, then a step, a difference, a packet and the end of
// the loop by their forms. With `JAVASCRIPT=off` the same without scripts.
import { base, must, open, problems, run, signIn, sound } from "../serve/panel_browser/browser.mjs";

const scripts = process.env.JAVASCRIPT !== "off";
const name = process.env.LOOP;
const LOOKS = [
  { colorScheme: "light" },
  { colorScheme: "dark" },
  { colorScheme: "light", viewport: { width: 380, height: 800 } },
];

const noDialogs = (page) => page.on("dialog", (it) => { problems.push(`a dialog: ${it.message()}`); it.dismiss(); });

async function looks(path) {
  for (const look of LOOKS) {
    const { browser, page } = await open(look);
    noDialogs(page);
    await signIn(page);
    for (const it of ["/optimise", path]) await sound(page, it);
    const markup = "main script, main img, main b, main [onclick], main [onload], main [onerror]";
    must(await page.locator(markup).count() === 0, "what models wrote stays text");
    await browser.close();
  }
}

async function use(page, path) {
  await page.goto(`${base}/optimise`);
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("button", { name: "Step", exact: true }).click();
  await page.waitForURL(/\/jobs\/[0-9a-f]+$/);
  await page.getByRole("heading", { name: `Step of the prompt loop of ${name} is done` }).waitFor();
  await page.getByRole("link", { name: "Open the loop" }).click();
  await page.waitForURL(base + path);
  must(await page.locator("main svg").count() > 0, "the tree is drawn");

  await page.locator("select[name=from]").selectOption("seed");
  await page.locator("select[name=to]").selectOption("r1c2");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("heading", { name: "Difference from seed to r1c2" }).waitFor();
  must(await page.locator("pre.diff ins").count() > 0, "added lines are marked");
  await page.getByText(/^p1: round 1, from seed/).click();
  await page.getByRole("heading", { name: "Where the parent did worst" }).first().waitFor();

  await page.getByText("Stop…", { exact: true }).click();
  await page.getByLabel("reason (optional)").fill("seen enough");
  await page.getByRole("button", { name: "Stop the loop" }).click();
  await page.getByText("The loop has ended. What it has recorded stays.").waitFor();
  must(await page.getByText("Seen enough").count() > 0, "the reason is shown");
  must(await page.getByRole("button", { name: "Step", exact: true }).count() === 0, "nothing is left to do");
}

await run(async () => {
  const path = `/optimise/${name}`;
  if (scripts) await looks(path);
  const { browser, page } = await open({ javaScriptEnabled: scripts });
  noDialogs(page);
  await signIn(page);
  await use(page, path);
  await browser.close();
  if (scripts) await looks(path);
});
