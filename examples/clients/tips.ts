// A client of the policies in plain TypeScript: asks for a tip, and reports what became of it.
//
// Usage: ASSIZE_URL=http://127.0.0.1:4658 ASSIZE_TOKEN=… node tips.js USER   (after `tsc tips.ts`)

declare const process: { env: Record<string, string | undefined>; argv: string[] };

type Tip = { id: string; arm: string; task_match: number; text: string };
type Decision = { decision_id: string; policy: string; chosen: string; propensity: number };

const url = process.env.ASSIZE_URL ?? "http://127.0.0.1:4658";
const token = process.env.ASSIZE_TOKEN ?? "";

/** Posts JSON; a refusal is thrown with the server's own message. */
async function call<T>(path: string, body: unknown): Promise<T> {
  const answer = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(5000),
  });
  const value = await answer.json();
  if (!answer.ok) {
    throw new Error(`${path} answered ${answer.status}: ${value?.error?.message}`);
  }
  return value as T;
}

async function main(): Promise<void> {
  const user = process.argv[2] ?? "ada";
  // Tips of the same kind share an arm, so that the policy learns although texts never come twice.
  const tips: Tip[] = [
    { id: "walk", arm: "break", task_match: 0.2, text: "Walk around the block." },
    { id: "plan", arm: "focus", task_match: 0.9, text: "Finish the report first." },
  ];
  const decision = await call<Decision>("/recommend", {
    user_id: user,
    context: { hour: 9.5, weekend: false, open_tasks: 4, urgency: 0.7 },
    profile_features: { completion_rate: 0.4, tip_volume: 12 },
    candidates: tips,
  });
  const shown = tips.find((tip) => tip.id === decision.chosen);
  console.log(`${decision.policy} shows: ${shown?.text} (probability ${decision.propensity.toFixed(2)})`);
  // Later, when the user has acted on the tip: 1, or 0 if it was dismissed. Sending it twice is safe.
  let answer: unknown;
  for (let time = 0; time < 2; time++) {
    answer = await call("/reward", { decision_id: decision.decision_id, reward: 1 });
  }
  console.log(`rewarded: ${JSON.stringify(answer)}`);
}

main();
