// The board: what it says after a promotion, its controls, its plots, and how it stacks.
// With `JAVASCRIPT=off` the same without scripts.
import { base, must, open, run, signIn, sound } from "./browser.mjs";

const scripts = process.env.JAVASCRIPT !== "off";
const WIDTHS = [1440, 1024, 768, 390];

// Parts of names that are broken inside: each part is one line.
const brokenParts = (page) => page.locator(".pair span").evaluateAll((all) => all
  .filter((it) => it.getClientRects().length > 0)
  .filter((it) => it.getBoundingClientRect().height > 1.6 * parseFloat(getComputedStyle(it).lineHeight))
  .map((it) => it.textContent));

const cut = (page) => page.locator("main .scroll").evaluateAll((all) => all
  .map((it) => [it.getAttribute("aria-label"), it.scrollWidth - it.clientWidth])
  .filter(([, over]) => over > 0));

async function states(page) {
  await page.goto(`${base}/experiments/bench`);
  const heading = await page.locator("h1").textContent();
  must(heading.startsWith("Champion holds: no challenger is ahead of scripted:good"), heading);
  const failed = page.locator("tr.failed-pair");
  must((await failed.textContent()).includes("all 8 cells failed"), "the failed pair has a row");
  await failed.getByRole("link", { name: "all 8 cells failed" }).click();
  await page.waitForURL(/model=scripted%3Abroken/);
  await page.goto(`${base}/`);
  must((await page.locator("tbody tr").first().textContent()).includes("champion holds"), "the list says it too");
}

async function controls(page) {
  await page.goto(`${base}/experiments/bench`);
  const split = page.locator("select[name=split]");
  must(!(await split.textContent()).includes("confirmation"), "a sealed split is not offered");
  await page.locator("select[name=incumbent]").selectOption("scripted:fair/p1");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL(/incumbent=scripted%3Afair%2Fp1/);
  const heading = await page.locator("h1").textContent();
  must(heading.startsWith("Ship scripted:good"), heading);
  must(await page.locator("select[name=incumbent]").inputValue() === "scripted:fair/p1", "the choice stays");
  must(await page.locator('svg:has-text("worse on the left") circle').count() === 16, "a point per challenger and scenario");
  must(await page.locator("#by-scenario tbody tr").count() === 8, "a row per scenario");
  const file = await page.getByRole("link", { name: "CSV" }).getAttribute("href");
  must(file.includes("incumbent=scripted%3Afair%2Fp1"), `the file is of this board: ${file}`);
}

async function gate(page) {
  await page.goto(`${base}/promotions?experiment=bench`);
  const results = await page.locator("table.gate tbody tr > td:first-child").allTextContents();
  const failed = results.map((it) => it.includes("FAILED"));
  must(failed[0] && !failed.slice(failed.lastIndexOf(true) + 1).includes(true), "there are failed checks");
  must(failed.lastIndexOf(true) === failed.filter(Boolean).length - 1, `failed checks come first: ${results}`);
  must(await page.locator("table.gate tr:has(td.bad) .remedies").count() === failed.filter(Boolean).length, "each has what helps");
  must(!await page.locator("details.steps li").first().isVisible(), "commands are folded");
  await page.getByTitle("Show the whole record").first().click();
  const record = await page.locator("main").textContent();
  for (const word of ["against", "scripted:plain-1.5b-instruct", "because", "SHA-256", "required"]) must(record.includes(word), `the record holds ${word}`);
  must(await page.locator("table.gate tbody tr").count() > 5, "every check is recorded");
  if (scripts) await sound(page);
}

async function widths() {
  for (const width of WIDTHS) {
    const { browser, page } = await open({ javaScriptEnabled: scripts, viewport: { width, height: 900 } });
    await signIn(page);
    await page.goto(`${base}/experiments/bench`);
    const broken = await brokenParts(page);
    must(broken.length === 0, `${width} px: broken inside: ${broken}`);
    const hidden = await cut(page);
    must(hidden.length === 0, `${width} px: cut: ${hidden}`);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    must(over <= 0, `${width} px: ${over} px wider than the window`);
    const tops = await page.locator(".figures figure").evaluateAll((all) => all.map((it) => it.getBoundingClientRect().top));
    if (width === 1440) must(tops[0] === tops[1], "charts stand side by side");
    if (scripts) await sound(page);
    await browser.close();
  }
}

await run(async () => {
  const { browser, page } = await open({ javaScriptEnabled: scripts });
  await signIn(page);
  await states(page);
  await controls(page);
  await gate(page);
  await browser.close();
  await widths();
});
