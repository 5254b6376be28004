// What the browser tests share: Chromium, pages that must stay free of errors, and axe.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.NODE_FOLDER;
const require = createRequire(join(folder, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(join(folder, "node_modules/axe-core/axe.min.js"), "utf8");

export const base = process.env.PANEL_URL;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export const problems = [];

// Refused answers are part of some tests; everything else in the console is a mistake.
const REFUSED = /Failed to load resource.*(400|401|403|404|409)/;

export async function open(options = {}, expected = REFUSED) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("console", (it) => {
    if (["error", "warning"].includes(it.type()) && !expected.test(it.text())) problems.push(`${page.url()}: ${it.text()}`);
  });
  page.on("pageerror", (it) => problems.push(`${page.url()}: ${it.message}`));
  return { browser, context, page };
}

export async function signIn(page, token = process.env.PANEL_TOKEN) {
  await page.goto(`${base}/`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((it) => !it.pathname.startsWith("/sign-in"));
}

// No serious accessibility problem, and nothing wider than the window.
export async function sound(page, path) {
  if (path) await page.goto(base + path);
  const session = await page.context().newCDPSession(page);
  await session.send("Page.setBypassCSP", { enabled: true });
  await page.reload();
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  await session.send("Page.setBypassCSP", { enabled: false });
  await session.detach();
  for (const it of violations.filter((it) => ["serious", "critical"].includes(it.impact))) {
    problems.push(`${page.url()}: ${it.id}: ${it.nodes[0].html.slice(0, 160)}`);
  }
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (over > 0) problems.push(`${page.url()}: ${over} px wider than the window`);
}

export function must(condition, message) {
  if (!condition) throw new Error(message);
}

export async function run(work) {
  try {
    await work();
  } catch (error) {
    problems.push(error.stack ?? String(error));
  }
  if (problems.length > 0) {
    console.log(problems.join("\n"));
    process.exit(1);
  }
  console.log("OK");
  process.exit(0);
}
