import { isDeepStrictEqual } from 'node:util';
import { readWholeNumber } from '../arguments.ts';
import { type Colour, count, cut, type Paint, plural, shortTime, tableLines } from '../text.ts';
import { quoted } from './api.ts';
import { isRecord, type Json, textOf } from './json.ts';
import type { AnswerOf } from './types.ts';
import { type Called, type Field, get, post, theExport, type Verbs, yes } from './verb.ts';

const range: Readonly<Record<string, Field>> = {
  from: ['--from <time>', 'start, ISO 8601, UTC if it has no offset'],
  to: ['--to <time>', 'end (exclusive); default: now'],
};
const last: Field = ['--last <span>', 'instead of --from and --to: such as 6h or 2d'];

async function withRange({ api, given }: Called): Promise<Json> {
  const { readRange } = await import('./time-range.ts');
  const { start_at: from, end_at: to } = readRange(api, given);
  return { ...given, from, to };
}

type Coverage = AnswerOf<'get', 'batch_exports/{id}/coverage'>;
type Ranges = Coverage['ranges'];
type Elements = NonNullable<Coverage['elements']>;

const stateColours: Partial<Record<Ranges[number]['state'], Colour>> = {
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

/** The deliveries of an export without a past, oldest first: it has elements or snapshots instead of intervals. */
function elementLines(elements: Elements, paint: Paint): readonly string[] {
  const rows = elements
    .toReversed()
    .map(({ start, end, rows, element, superseded, ...one }) => [
      element ? String(element.number) : '',
      shortTime(start),
      shortTime(end),
      shortTime(one.snapshot_at),
      count(rows),
      element ? count(element.deletes) : '',
      cut(
        [
          describeElement(element, one.snapshot_at),
          superseded && `${plural(superseded.intervals, 'interval')} before it superseded`,
        ]
          .filter(Boolean)
          .join('; '),
        100,
      ),
    ]);
  const head = ['ELEMENT', 'FROM', 'TO', 'TAKEN AT', 'ROWS', 'DELETES', 'WHAT'];
  return tableLines(head, rows, paint);
}

function describeElement(element: Elements[number]['element'], takenAt: string | null): string {
  if (!element) return takenAt === null ? 'removed by keep_snapshots' : 'all rows';
  if (element.base !== null) return `a base, because ${element.base}`;
  return `what changed since ${element.follows}, from version ${element.from_version}`;
}

const asPage: Readonly<Record<string, Field>> = {
  html: ['--html', 'print it as a page, to read and to print'],
};

/** Prints the bytes as they are signed, and a line feed. */
async function printDocument({ deps, given, send }: Called): Promise<null> {
  const text = await send({ format: given.html === true ? 'html' : 'json' }, { isText: true });
  deps.terminal.out(`${String(text).trimEnd()}\n`);
  return null;
}

const completeUpTo = (mark: string | null) =>
  mark === null
    ? 'No interval of the schedule is complete yet.'
    : `Complete up to ${shortTime(mark)}.`;

export const recordVerbs: Verbs = {
  'coverage list': get('batch_exports/{id}/coverage', {
    about: 'list the stretches of intervals by state; default: all',
    args: { id: theExport },
    options: range,
    flags: { last },
    prepare: (called) =>
      called.given.from === undefined && called.given.last === undefined
        ? { id: called.given.id }
        : withRange(called),
    json: (answer) => answer,
    lines({ ranges, blocker, elements, high_water_mark: mark }, { paint }) {
      if (ranges.length === 0) return ['No interval is complete in this range yet.'];
      // Deliveries and superseded intervals are in the table of deliveries.
      const listed = elements
        ? ranges.filter(({ state }) => !['done', 'superseded', 'never_asked'].includes(state))
        : ranges;
      const rows = listed.map(({ state, start, end, intervals }) => [
        { text: state.replaceAll('_', ' '), colour: stateColours[state] },
        shortTime(start),
        shortTime(end),
        count(intervals),
      ]);
      const blocked =
        blocker &&
        ` ${plural(blocker.intervals, 'interval')} from ${shortTime(blocker.start)}: ${blocker.state.replaceAll('_', ' ')}.`;
      return [
        ...(elements && elements.length > 0 ? elementLines(elements, paint) : []),
        ...(rows.length > 0 ? tableLines(['STATE', 'FROM', 'TO', 'INTERVALS'], rows, paint) : []),
        `${completeUpTo(mark)}${blocked ?? ''}`,
      ];
    },
  }),
  'coverage accept': post('batch_exports/{id}/coverage/accept', {
    about: 'accept the intervals of a range that are not done as they are',
    args: { id: theExport },
    options: { ...range, reason: ['--reason <text>', 'kept in the changes of the export'] },
    flags: { last, yes },
    prepare: withRange,
    confirm: ({ batchExport, given: { from, to } }) =>
      `Accept the intervals of ${quoted(batchExport.name)} from ${shortTime(String(from))} to ${shortTime(String(to))} that are not done, as they are?`,
    lines: (done) => [
      `${plural(done.accepted, 'interval')} accepted. ${completeUpTo(done.high_water_mark)}`,
    ],
  }),
  changes: get('batch_exports/{id}/activity', {
    about: 'show who changed what of an export, and when',
    args: { id: theExport },
    options: { limit: ['--limit <n>', 'changes to show', { read: readWholeNumber, initial: 20 }] },
    lines: changeLines,
  }),
  statement: post('batch_exports/{id}/statements', {
    about: 'make a signed statement of what was delivered, and print its number and digest',
    args: { id: theExport },
    lines: ({ number, sha256 }) => [`${number}:${sha256}`],
  }),
  certificate: get('batch_exports/{id}/erasures/{request}', {
    about: 'print the signed certificate of an erasure',
    args: { id: theExport, request: ['<request>', 'as the erasure printed it'] },
    flags: asPage,
    notFound:
      'No statement has this request yet. `sluice statement {id}` makes one, once the erasure has ended.',
    run: printDocument,
    lines: () => [],
  }),
  'delivery-record': get('delivery_record', {
    about: 'print the signed record of what was delivered in a month',
    options: { month: ['--month <month>', 'such as 2024-03; default: the present one'] },
    flags: asPage,
    run: printDocument,
    lines: () => [],
  }),
};

type Change = AnswerOf<'get', 'batch_exports/{id}/activity'>['results'][number];

function changeLines(
  { results }: { readonly results: readonly Change[] },
  { paint }: Pick<Called, 'paint'>,
): readonly string[] {
  if (results.length === 0) return ['No changes.'];
  const rows = results.flatMap((one) => {
    const head = [shortTime(one.happened_at), one.key_name ?? 'command line or Sluice', one.action];
    const texts = one.changes
      .flatMap(({ field, before, after }) => settingsThatDiffer(field, before, after))
      .map(({ field, before, after }) => `${field}: ${shown(before)} → ${shown(after)}`);
    return (texts.length === 0 ? [''] : texts).map((text, at) => [
      ...(at === 0 ? head : ['', '', '']),
      text,
    ]);
  });
  return tableLines(['TIME', 'BY', 'ACTION', 'CHANGE'], rows, paint);
}

const shown = (value: unknown) =>
  value === '' ? '""' : cut(textOf(value).replace(/(T\d\d:\d\d:\d\d)\.000000Z/g, '$1Z'), 60);

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
