import { setTimeout as sleep } from 'node:timers/promises';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { type CliDeps, misused } from '../deps.ts';
import { type Colour, type Paint, paintFor, plain, shortTime } from '../text.ts';
import type { Api } from './api.ts';
import { findExport } from './find-export.ts';
import { keepAsking } from './keep-asking.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import { readSince } from './time-range.ts';
import type { LogEntry, QueryOf } from './types.ts';

export interface LogsOptions extends ApiOptions {
  readonly follow?: boolean;
  readonly run?: string;
  readonly level?: readonly string[];
  readonly limit: number;
  readonly since?: string;
  readonly search?: string;
}

const optionOf = { level: '--level', limit: '--limit', after: '--since', search: '--search' };
const pollMs = 1_000;
/** Entries can become visible after newer ones: their transactions end in another order. */
const overlapMs = 30_000;
const pageSize = 1_000;
/** Maximum pages of new entries in one poll; a flood is cut. */
const maxPages = 5;

type LogQuery = QueryOf<'get', 'batch_exports/{batch_export_id}/logs'>;

/** `sluice logs`: the newest entries, the newest last; with --follow until Ctrl-C. */
export async function logs(deps: CliDeps, name: string, options: LogsOptions): Promise<void> {
  const { limit } = options;
  if (limit < 1 || limit > pageSize) {
    throw misused(`--limit must be 1 to ${pageSize}.`);
  }
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const { level, search, since } = options;
  const filter = {
    ...(level === undefined ? {} : { level }),
    ...(search === undefined ? {} : { search }),
    ...(since === undefined ? {} : { after: readSince(api, '--since', since) }),
  };
  const read = (query: LogQuery) =>
    readPage(api, id, options.run, { ...filter, ...query } as LogQuery);
  const paint = paintFor(deps.terminal);
  const show = (entry: LogEntry) =>
    deps.print(options.json ? JSON.stringify(entry) : lineOf(entry, paint));

  const newest = (await read({ limit } as LogQuery)).toReversed();
  for (const entry of newest) show(entry);
  const readAgain = (query: LogQuery) => keepAsking(deps.terminal, () => read(query));
  if (options.follow) await follow(deps, readAgain, newest, show);
  else if (newest.length === 0 && !options.json) deps.print('No log entries.');
}

async function readPage(api: Api, id: string, run: string | undefined, query: LogQuery) {
  const page =
    run === undefined
      ? await api.call('get', 'batch_exports/{batch_export_id}/logs', {
          path: { batch_export_id: id },
          query,
          optionOf,
        })
      : await api.call('get', 'batch_exports/{batch_export_id}/runs/{run_id}/logs', {
          path: { batch_export_id: id, run_id: run },
          query,
          optionOf,
          notFound: `There is no run ${run} of this export. \`sluice runs list\` shows its runs.`,
        });
  return page.results;
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
      const known = counts.get(keyOf(entry)) ?? 0;
      if (known > 0) counts.set(keyOf(entry), known - 1);
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
      const results = await read(query as LogQuery);
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
