import { setTimeout as sleep } from 'node:timers/promises';

/** Times of an API's answers, in milliseconds. */
export interface ApiTimes {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
}

/** Asks for a page, two requests at a time, until `until` is settled. */
export async function measureApi(
  url: string,
  key: string,
  until: Promise<unknown>,
): Promise<ApiTimes> {
  const times: number[] = [];
  let ended = false;
  const call = async () => {
    while (!ended) {
      const startedAt = performance.now();
      const answer = await fetch(`${url}?limit=20`, {
        headers: { authorization: `Bearer ${key}` },
      });
      await answer.arrayBuffer();
      if (answer.status !== 200) throw new Error(`the API answers ${answer.status}`);
      times.push(performance.now() - startedAt);
      await sleep(50);
    }
  };
  const calls = [call(), call()];
  await until;
  ended = true;
  await Promise.all(calls);
  const at = percentilesOf(times);
  return { requests: times.length, p50: at(0.5), p99: at(0.99) };
}

/** @returns the value, rounded, below which a share of the values is */
export function percentilesOf(values: readonly number[]): (share: number) => number {
  const sorted = values.toSorted((a, b) => a - b);
  return (share) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
}
