// The whole flow in the panel: sign in, collect, judge by keyboard, compare, promote, roll back.
// With `JAVASCRIPT=off` the same without scripts, by clicks alone.
import { base, must, open, run, signIn } from "./browser.mjs";

const scripts = process.env.JAVASCRIPT !== "off";

async function collect(page, experiment) {
  await page.getByRole("link", { name: "New run" }).first().click();
  await page.getByLabel(/^others/).fill("scripted:fair,scripted:good");
  await page.getByLabel(/^script/).fill("script.json");
  await page.getByLabel("experiment", { exact: true }).fill(experiment);
  await page.getByLabel("outputs per cell").fill("1");
  await page.getByLabel("p2").uncheck();
  if (!scripts) await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("2 models × 1 prompt × 8 scenarios × 1 = 16 outputs · 2 loads").waitFor();
  await page.getByRole("button", { name: "Run collection" }).click();
  await page.waitForURL(/\/jobs\/[0-9a-f]+$/);
  await page.getByRole("heading", { name: `Collection of ${experiment} is done` }).waitFor();
  must(await page.locator("tr[data-row] .sq.collected").count() === 16, "all cells are filled");
}

async function judge(page, experiment) {
  await page.goto(`${base}/experiments/${experiment}`);
  await page.getByRole("link", { name: "Judge 16 pending" }).click();
  await page.getByRole("button", { name: "Start judging" }).click();
  for (let number = 0; number < 60; number += 1) {
    const candidate = page.locator("blockquote.big");
    const finish = page.getByRole("button", { name: "Finish and reveal" });
    await candidate.or(finish).first().waitFor();
    if (await finish.isVisible()) break;
    const text = await candidate.textContent();
    must(!/scripted|fair|good|p1/.test(await page.locator("form.desk").textContent()), "the case is blind");
    const score = text.includes("Walk") ? "3" : "2";
    const id = await page.locator("input[name=case]").inputValue();
    if (scripts) {
      await page.keyboard.press(score);
      if (number === 0) await again(page, score);
      await page.keyboard.press("Enter");
    } else {
      for (const scale of await page.locator("fieldset.scale").all()) {
        await scale.locator(`input[value="${score}"]`).check();
      }
      await page.getByRole("button", { name: "Save and next" }).click();
    }
    await page.waitForFunction((id) => document.querySelector("input[name=case]")?.value !== id, id);
  }
  await page.getByRole("button", { name: "Finish and reveal" }).click();
  await page.getByRole("heading", { name: /cases of these pairs/ }).waitFor();
  await page.getByText("scripted:good × p1").waitFor();
}

const inSight = (locator) => locator.evaluate((it) => {
  const { top, bottom, height } = it.getBoundingClientRect();
  return height > 0 && top >= 0 && bottom <= innerHeight;
});

// A draft survives a reload; a score can be taken back and given again; flags and help have keys.
async function again(page, score) {
  const chosen = page.locator("fieldset.scale input:checked");
  await page.reload();
  must(await chosen.count() === 1, "the draft is kept");
  await page.keyboard.press("ArrowLeft");
  must(await chosen.count() === 0, "a score is taken back");
  await page.keyboard.press(score);
  const flag = page.locator("input[data-key=o]");
  const before = await flag.isChecked();
  await page.keyboard.press("o");
  must(await flag.isChecked() !== before, "o turns a flag");
  await page.keyboard.press("o");
  await page.keyboard.press("r");
  await page.keyboard.type("because 5 and o");
  must(await flag.isChecked() === before, "keys are letters inside a reason");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.evaluate(() => scrollTo(0, 0));
  must(await inSight(page.locator("details.keys dl")), "? shows the keys, without scrolling");
  await page.keyboard.press("Escape");
  must(!await page.locator("details.keys dl").isVisible(), "Escape hides them");
}

async function decide(page, experiment) {
  await page.goto(`${base}/experiments/${experiment}`);
  must((await page.locator("tbody tr").first().textContent()).includes("scripted:good"), "the better one leads");
  await page.goto(`${base}/promotions?experiment=${experiment}`);
  await page.getByLabel(/^note/).fill("from the panel");
  await page.getByRole("button", { name: /^Promote / }).click();
  await page.getByText("the champion has changed").waitFor();
  await page.getByText("from the panel").first().waitFor();
}

async function rollBack(page) {
  await page.goto(`${base}/promotions`);
  await page.getByText("Roll back…").click();
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByText("is champion again").waitFor();
}

await run(async () => {
  const { browser, page } = await open({ javaScriptEnabled: scripts });
  await signIn(page);
  const experiment = scripts ? "by-keys" : "by-clicks";
  await collect(page, experiment);
  await judge(page, experiment);
  await decide(page, experiment);
  await rollBack(page);
  await browser.close();
});
