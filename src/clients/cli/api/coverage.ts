import { isDeepStrictEqual } from 'node:util';
import type { CliDeps } from '../deps.ts';
import { type Colour, count, cut, paintFor, plural, shortTime, tableLines } from '../text.ts';
import { confirm } from './confirm.ts';
import { quoted } from './api.ts';
import { print } from './print.ts';
import { findExport } from './find-export.ts';
import { isRecord, textOf } from './json.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import { type RangeOptions, readRange } from './time-range.ts';
import type { AnswerOf } from './types.ts';

type Ranges = NonNullable<AnswerOf<'get', '/batch_exports/{id}/coverage'>['ranges']>;

const colours: Partial<Record<Ranges[number]['state'], Colour>> = {
  done: 'green',
  failed: 'red',
  cancelled: 'red',
  missing: 'red',
  late_rows: 'yellow',
  retrying: 'yellow',
  unsettled: 'yellow',
  never_asked: 'dim',
  paused: 'dim',
};

/** `sluice coverage list`: the state of every interval, as stretches of one state. */
export async function listCoverage(
  deps: CliDeps,
  name: string,
  options: ApiOptions & RangeOptions,
): Promise<void> {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const hasRange = options.from !== undefined || options.last !== undefined;
  const { start_at: from, end_at: to } = hasRange ? readRange(api, options) : {};
  const query = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
  const optionOf = { from: '--from', to: '--to' };
  const found = await api.call('get', '/batch_exports/{id}/coverage', {
    path: { id },
    query,
    optionOf,
  });
  print(deps, options, found, () => {
    const ranges = found.ranges ?? [];
    if (ranges.length === 0) return ['No interval is complete in this range yet.'];
    const rows = ranges.map(({ state, start, end, intervals }) => [
      { text: state.replaceAll('_', ' '), colour: colours[state] },
      shortTime(start),
      shortTime(end),
      count(intervals),
    ]);
    const { blocker, high_water_mark: mark } = found;
    return [
      ...tableLines(['STATE', 'FROM', 'TO', 'INTERVALS'], rows, paintFor(deps.terminal)),
      `Complete up to ${shortTime(mark)}.${blocker === null ? '' : ` ${plural(blocker.intervals, 'interval')} from ${shortTime(blocker.start)}: ${blocker.state.replaceAll('_', ' ')}.`}`,
    ];
  });
}

export interface AcceptOptions extends ApiOptions, RangeOptions {
  readonly reason?: string;
  readonly yes?: boolean;
}

/** `sluice coverage accept`: a person decides that the intervals of a range stay as they are. */
export async function acceptCoverage(
  deps: CliDeps,
  name: string,
  options: AcceptOptions,
): Promise<void> {
  const api = openApi(deps, options);
  const found = await findExport(api, name);
  const { start_at: from, end_at: to } = readRange(api, options);
  const question = `Accept the intervals of ${quoted(found.name)} from ${shortTime(from)} to ${shortTime(to)} that are not done, as they are?`;
  await confirm(deps.terminal, question, options.yes ?? false);
  const done = await api.call('post', '/batch_exports/{id}/coverage/accept', {
    path: { id: found.id },
    body: { from, to, reason: options.reason ?? null },
    optionOf: { from: '--from', to: '--to', reason: '--reason' },
  });
  print(deps, options, done, () => [
    `${plural(done.accepted, 'interval')} accepted. Complete up to ${shortTime(done.high_water_mark)}.`,
  ]);
}

export interface ChangesOptions extends ApiOptions {
  readonly limit: number;
}

/** `sluice changes`: who changed what of an export, and when, the newest first. */
export async function listChanges(
  deps: CliDeps,
  name: string,
  options: ChangesOptions,
): Promise<void> {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const { results } = await api.call('get', '/batch_exports/{id}/activity', {
    path: { id },
    query: { limit: options.limit },
    optionOf: { limit: '--limit' },
  });
  print(deps, options, results, () => {
    if (results.length === 0) return ['No changes.'];
    const rows = results.flatMap((one) => {
      const head = [
        shortTime(one.happened_at),
        one.key_name ?? 'command line or Sluice',
        one.action,
      ];
      const changes = one.changes.flatMap(({ field, before, after }) =>
        settingsThatDiffer(field, before, after),
      );
      const texts = changes.map(
        ({ field, before, after }) => `${field}: ${shown(before)} → ${shown(after)}`,
      );
      return (texts.length === 0 ? [''] : texts).map((text, at) => [
        ...(at === 0 ? head : ['', '', '']),
        text,
      ]);
    });
    return tableLines(['TIME', 'BY', 'ACTION', 'CHANGE'], rows, paintFor(deps.terminal));
  });
}

const shown = (value: unknown) => (value === '' ? '""' : cut(textOf(value), 60));

/** `destination.config.prefix`, instead of two whole destinations that differ in it. */
function settingsThatDiffer(
  field: string,
  before: unknown,
  after: unknown,
): readonly { readonly field: string; readonly before: unknown; readonly after: unknown }[] {
  const isDivisible =
    isRecord(before) && isRecord(after) && Object.keys(before).some((name) => name in after);
  if (!isDivisible) return [{ field, before, after }];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !isDeepStrictEqual(before[name] ?? null, after[name] ?? null))
    .flatMap((name) =>
      settingsThatDiffer(`${field}.${name}`, before[name] ?? null, after[name] ?? null),
    );
}
