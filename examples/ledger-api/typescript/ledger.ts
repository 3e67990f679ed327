// Semel's Ledger API from TypeScript: Node's own fetch, made to be copied.
//
//     const ledger = new Ledger("http://127.0.0.1:8081", token);
//     const outcome = await ledger.once("charges", orderId, order, async (operation) => {
//       const receipt = await provider.charge(order, { idempotencyKey: orderId });
//       return { status: 201, body: JSON.stringify(receipt) };
//     });
//
// The effect runs once; every retry gets the same outcome. While it runs, the lease is renewed. An effect that throws is
// abandoned: it may have begun, so nobody repeats it unless its policy says that this is safe. One that surely never began
// throws NotBegun, and is released.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export interface Outcome {
  status: number;
  body?: string;
  body_base64?: string;
  kept?: boolean;
}

export interface Policy {
  on_unknown?: "refuse" | "retry" | "resume";
  dedup_window?: string;
  lease?: string;
  effect_deadline?: string;
  retention?: string;
  response_retention?: string;
  natural?: boolean;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  retryable: boolean;
  answer?: "busy" | "mismatch" | "unknown" | "expired" | "settled" | "fenced" | "too_early" | "withheld";
  outcome?: Outcome;
}

interface Checkpoint {
  name: string;
  value?: string;
}

type Answer =
  | { answer: "claimed"; token: string; attempt: string; doubt: boolean; lease: string; checkpoints: Checkpoint[] }
  | { answer: "replay"; outcome: Outcome }
  | { answer: "ok"; state: "running" | "unknown" | "settled" | "absent"; checkpoint?: Checkpoint };

/** What the ledger said instead of yes. */
export class Conflict extends Error {
  constructor(readonly problem: Problem) {
    super(`${problem.title}: ${problem.detail ?? ""}`);
  }
  get answer(): string {
    return this.problem.answer ?? this.problem.type.split(":").pop()!;
  }
}

/** Thrown by an effect that surely never began. */
export class NotBegun extends Error {}

/** What an effect may know of the operation it performs. */
export interface Operation {
  readonly key: string;
  readonly doubt: boolean; // an earlier holder may have begun
  readonly checkpoints: ReadonlyMap<string, string | undefined>;
  /** What is stored under the name: the first value stays. */
  checkpoint(name: string, value: string): Promise<string | undefined>;
}

const units: Record<string, number> = { us: 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

function milliseconds(duration: string): number {
  const [, number, unit] = /^(\d+)([a-z]+)$/.exec(duration)!;
  return Number(number) * units[unit!]!;
}

export class Ledger {
  constructor(private readonly url: string, private readonly token: string, private readonly tries = 5) {}

  async once(scope: string, key: string, request: unknown, effect: (operation: Operation) => Promise<Outcome>,
             policy: Policy = {}): Promise<{ outcome: Outcome; replayed: boolean }> {
    const sent = performance.now(); // the lease is counted from before we asked
    // A claim whose reply is lost is repeated with the same attempt and gets the same grant.
    const claimed = await this.command("claim", { scope, key, request, attempt: randomUUID(), policy });
    if (claimed.answer === "replay") return { outcome: claimed.outcome, replayed: true };
    if (claimed.answer !== "claimed") throw new Error("a claim is answered with claimed or replay");

    const holder = { scope, key, token: claimed.token, attempt: claimed.attempt };
    const lease = milliseconds(claimed.lease);
    const renewing = setInterval(() => void this.command("renew", holder).catch(() => {}), lease / 3);
    try {
      // A process that was paused must not start what it may have lost.
      if (performance.now() > sent + (lease * 2) / 3) throw new NotBegun("the lease may have run out");
      const outcome = await effect({
        key,
        doubt: claimed.doubt,
        checkpoints: new Map(claimed.checkpoints.map((each) => [each.name, each.value])),
        checkpoint: async (name, value) => {
          const saved = await this.command("checkpoint", { ...holder, name, value });
          return saved.answer === "ok" ? saved.checkpoint?.value : undefined;
        },
      });
      await this.command("settle", { ...holder, outcome });
      return { outcome, replayed: false };
    } catch (error) {
      // Without an answer to this its lease runs out; what is thrown is what happened first.
      if (!(error instanceof Conflict))
        await this.command(error instanceof NotBegun ? "release" : "abandon", holder).catch(() => {});
      throw error;
    } finally {
      clearInterval(renewing);
    }
  }

  /** Every command is safe to repeat, so it is, as long as nobody answers. */
  async command(command: string, body: unknown): Promise<Answer> {
    for (let left = this.tries - 1; ; --left) {
      try {
        const response = await fetch(`${this.url}/v1/${command}`, {
          method: "POST",
          headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(10_000),
        });
        if (response.ok) return (await response.json()) as Answer;
        const problem = (await response.json()) as Problem;
        if (response.status !== 503 || left === 0) throw new Conflict(problem);
      } catch (error) {
        if (error instanceof Conflict || left === 0) throw error;
      }
      await sleep(100 * 2 ** (this.tries - left));
    }
  }
}
