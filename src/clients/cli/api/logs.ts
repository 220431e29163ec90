import { setTimeout as sleep } from 'node:timers/promises';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { type CliDeps, misused } from '../deps.ts';
import { keepAsking } from './api.ts';
import { type Colour, type Paint, plain, shortTime } from '../text.ts';
import { readSince } from './time-range.ts';
import type { AnswerOf, LogEntry } from './types.ts';
import type { Called } from './verb.ts';

const pollMs = 1_000;
/** Entries can become visible after newer ones: their transactions end in another order. */
const overlapMs = 30_000;
const pageSize = 1_000;
/** Maximum pages of new entries in one poll; a flood is cut. */
const maxPages = 5;

interface LogQuery {
  readonly limit: number;
  readonly offset?: number;
  readonly after?: string;
}

type Page = AnswerOf<'get', 'batch_exports/{batch_export_id}/logs'>;

/** `sluice logs`: the latest entries, oldest first; with --follow until Ctrl-C. */
export async function logs({ deps, api, given, isJson, paint, send }: Called<Page>): Promise<null> {
  const limit = Number(given.limit);
  if (limit < 1 || limit > pageSize) {
    throw misused(`--limit must be 1 to ${pageSize}.`);
  }
  const after =
    typeof given.after === 'string' ? readSince(api, '--since', given.after) : undefined;
  const read = async (query: LogQuery) => (await send({ after, ...query })).results;
  const show = (entry: LogEntry) =>
    deps.print(isJson ? JSON.stringify(entry) : lineOf(entry, paint));

  const newest = (await read({ limit })).toReversed();
  for (const entry of newest) show(entry);
  const readAgain = (query: LogQuery) => keepAsking(deps.terminal, () => read(query));
  if (given.follow) await follow(deps, readAgain, newest, show);
  else if (newest.length === 0 && !isJson) deps.print('No log entries.');
  return null;
}

/**
 * Prints what is new until the person stops it. Entries have no id: those of a window are counted by
 * what they say, and what is more than before is new. All times are the service's.
 */
async function follow(
  { terminal }: CliDeps,
  read: (query: LogQuery) => Promise<readonly LogEntry[]>,
  shown: readonly LogEntry[],
  show: (entry: LogEntry) => void,
): Promise<void> {
  let seen = [...shown];
  const [oldest] = shown;
  for (;;) {
    await sleep(pollMs, undefined, { signal: terminal.signal }).catch(() => {});
    if (terminal.signal.aborted) return;
    const last = seen.at(-1);
    const from = last && latest(oldest?.timestamp ?? '', before(last.timestamp));
    const window = await readWindow(read, from, terminal.signal);
    if (window === null) return;
    const counts = new Map<string, number>();
    for (const entry of seen) counts.set(keyOf(entry), (counts.get(keyOf(entry)) ?? 0) + 1);
    for (const entry of window) {
      const shownBefore = counts.get(keyOf(entry)) ?? 0;
      if (shownBefore > 0) counts.set(keyOf(entry), shownBefore - 1);
      else show(entry);
    }
    if (window.length > 0) seen = [...window];
  }
}

/** Oldest first; null if the person stopped it. */
async function readWindow(
  read: (query: LogQuery) => Promise<readonly LogEntry[]>,
  from: string | undefined,
  signal: AbortSignal,
): Promise<readonly LogEntry[] | null> {
  const entries: LogEntry[] = [];
  for (let page = 0; page < maxPages; page += 1) {
    const query = { limit: pageSize, offset: entries.length, ...(from ? { after: from } : {}) };
    try {
      const results = await read(query);
      entries.push(...results);
      if (results.length < pageSize) break;
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }
  return entries.toReversed();
}

const keyOf = ({ timestamp, level, run_id, message }: LogEntry) =>
  JSON.stringify([timestamp, level, run_id, message]);

const before = (timestamp: string) => toTimestamp(Date.parse(timestamp) - overlapMs);
const latest = (one: string, other: string) => (one > other ? one : other);

const colours: Partial<Record<LogEntry['level'], Colour>> = {
  ERROR: 'red',
  WARNING: 'yellow',
  DEBUG: 'dim',
};

function lineOf({ timestamp, level, message }: LogEntry, paint: Paint): string {
  const text = `${shortTime(timestamp)}  ${level.padEnd(7)}  ${plain(message)}`;
  const colour = colours[level];
  return colour ? paint(text, colour) : text;
}
