import type { DataInterval, Instant } from './time.ts';
import { toTimestamp } from './time.ts';

/** The template of a key prefix. `{year}` is of the interval's end, `{start:year}` of its start; in UTC. A brace cannot be written. */

export interface KeyValues {
  readonly interval: DataInterval;
  readonly table: string;
  readonly batchExportId: string;
}

/** XML 1.0, the language of stores, cannot hold some of these; lone surrogates are not UTF-8. */
export const refusedCharacters = /[\p{Cc}\p{Cs}\u2028\u2029\uFFFE\uFFFF]/u;

/** The maximum length of a prefix with its variables filled in, in bytes of UTF-8. */
export const maxPrefixBytes = 900;

const timeFields: Record<string, readonly [number, number]> = {
  year: [0, 4],
  month: [5, 7],
  day: [8, 10],
  hour: [11, 13],
  minute: [14, 16],
  second: [17, 19],
};

/** The maximum length of a PostgreSQL identifier, and so of a model's name, in bytes. */
const maxTableBytes = 63;

interface Variable {
  readonly render: (values: KeyValues) => string;
  readonly bytes: number;
  /** True if it is the same for all intervals of an export. */
  readonly isConstant?: true;
}

const variables: ReadonlyMap<string, Variable> = new Map<string, Variable>([
  ...timeVariables('', (interval) => interval.end),
  ['table', { render: (v) => v.table, bytes: maxTableBytes, isConstant: true }],
  ['data_interval_start', { render: (v) => isoSeconds(v.interval.start), bytes: 20 }],
  ['data_interval_end', { render: (v) => isoSeconds(v.interval.end), bytes: 20 }],
  ['batch_export_id', { render: (v) => v.batchExportId, bytes: 36, isConstant: true }],
  ...timeVariables('start:', (interval) => interval.start),
]);

function timeVariables(
  marker: string,
  bound: (interval: DataInterval) => Instant,
): readonly [string, Variable][] {
  return Object.entries(timeFields).map(([name, [from, to]]) => [
    `${marker}${name}`,
    { render: (v) => isoSeconds(bound(v.interval)).slice(from, to), bytes: to - from },
  ]);
}

/** The names that a template may have between braces, in the order of the documentation. */
export const keyVariables: readonly string[] = [...variables.keys()];

/** `2024-03-01T00:00:00Z`. @throws RangeError if it is no whole second: two intervals would have the same key */
export function isoSeconds(instant: Instant): string {
  const timestamp = toTimestamp(instant);
  if (timestamp.length !== 27 || !timestamp.endsWith('.000000Z')) {
    throw new RangeError(`Not a whole second of the years 0 to 9999: ${instant}`);
  }
  return `${timestamp.slice(0, 19)}Z`;
}

/** Its problems, as sentences for its owner. @param maxBytes of the prefix with its variables filled in */
export function checkKeyTemplate(template: string, maxBytes = maxPrefixBytes): readonly string[] {
  const { pieces, problems } = parse(template);
  const longest = pieces.reduce((sum, piece) => sum + pieceBytes(piece), 0);
  // A variable never renders to a dot or a slash, so the literals alone decide the folders.
  const shape = pieces.map((piece) => (typeof piece === 'string' ? piece : 'x')).join('');
  return [...problems, ...checkPath(shape, longest, maxBytes)];
}

/** Other programs fill these in or take them away. Sluice does not. */
const foreignForms: readonly (readonly [form: RegExp, says: string])[] = [
  [/^(?:\w+:\/\/|arn:)/, 'is taken for a folder, because a prefix begins within the bucket'],
  [/%-?[A-Za-z]|%\(\w+\)\w?|<\w+>/, 'is not filled in'],
  [/\$[{(]?\w*[)}]?/, 'is not filled in: a $ stays as it is'],
  [/(?<![A-Za-z])(?:yyyy|YYYY)/, 'is not filled in'],
  [/\\/, 'begins no folder: / does'],
];

/** Finds what looks in a valid template as if another program had to fill it in, for the owner: silently, all intervals would share a folder. */
export function describeForeignForms(template: string): readonly string[] {
  const texts = foreignForms.flatMap(([form, says]) => {
    const [text] = form.exec(template) ?? [];
    return text === undefined ? [] : [`${text} ${says}`];
  });
  if (texts.length === 0) return [];
  const all = keyVariables.map((name) => `{${name}}`).join(', ');
  return [`In prefix, ${texts.join('; ')}. Sluice fills in ${all}.`];
}

/** Without a leading, trailing or double slash; `''` for none. @throws RangeError if it is not valid */
export function renderKeyTemplate(template: string, values: KeyValues): string {
  const { pieces, problems } = parse(template);
  const text = pieces
    .map((piece) => (typeof piece === 'string' ? piece : piece.render(values)))
    .join('');
  const all = [...problems, ...checkPath(text, Buffer.byteLength(text))];
  if (all.length > 0) throw new RangeError(`Invalid key prefix: ${all.join(' ')}`);
  return normalizePath(text);
}

/** The leading folders of a template without variables: `a/b` of `a/b/{year}`. */
export function literalFolder(template: string): string {
  const first = parse(template).pieces[0];
  if (typeof first !== 'string') return '';
  const whole =
    first.length === template.length ? first : first.slice(0, first.lastIndexOf('/') + 1);
  return normalizePath(whole);
}

/** The leading folders that all intervals of an export share: `a/events` of `a/{table}/{year}`. */
export function commonFolder(
  template: string,
  constants: Pick<KeyValues, 'table' | 'batchExportId'>,
): string {
  const { pieces } = parse(template);
  const varies = pieces.findIndex((piece) => typeof piece !== 'string' && !piece.isConstant);
  const same = varies < 0 ? pieces : pieces.slice(0, varies);
  // No constant reads the interval.
  const values = { ...constants, interval: { start: 0, end: 0 } };
  const text = same
    .map((piece) => (typeof piece === 'string' ? piece : piece.render(values)))
    .join('');
  return normalizePath(varies < 0 ? text : text.slice(0, text.lastIndexOf('/') + 1));
}

/** The folders, without those within others. */
export function topFolders(folders: readonly string[]): readonly string[] {
  const holds = (other: string, one: string) => other === '' || one.startsWith(`${other}/`);
  return [...new Set(folders)].filter(
    (one, _, all) => !all.some((other) => other !== one && holds(other, one)),
  );
}

/** The most bytes that a folder of a rendered template can have. */
export function longestName(template: string): number {
  const { pieces } = parse(template);
  let longest = 0;
  let open = 0;
  for (const piece of pieces) {
    const [first = '', ...others] = typeof piece === 'string' ? piece.split('/') : [];
    open += typeof piece === 'string' ? Buffer.byteLength(first) : piece.bytes;
    longest = Math.max(longest, open, ...others.map((name) => Buffer.byteLength(name)));
    if (others.length > 0) open = Buffer.byteLength(others.at(-1) ?? '');
  }
  return longest;
}

/** Stores show an empty folder for each slash more, and a file system takes `a//b` and `a/b` for one path. */
function normalizePath(path: string): string {
  return path.split('/').filter(Boolean).join('/');
}

function parse(template: string): {
  pieces: readonly (string | Variable)[];
  problems: readonly string[];
} {
  const pieces: (string | Variable)[] = [];
  const problems: string[] = [];
  for (const [text] of template.matchAll(/\{{1,2}[^{}]*\}{1,2}|[^{}]+|[{}]/g)) {
    if (text === '{' || text === '}') {
      problems.push(`Unmatched brace ${text}.`);
    } else if (/^\{\{|\}\}$/.test(text)) {
      problems.push(`${text} has two braces. Write one, such as {year}.`);
    } else if (text.startsWith('{')) {
      const name = text.slice(1, -1);
      const variable = variables.get(name);
      if (variable) pieces.push(variable);
      else problems.push(`Unknown variable {${name}}. Use one of: ${keyVariables.join(', ')}.`);
    } else {
      pieces.push(text);
    }
  }
  return { pieces, problems };
}

function pieceBytes(piece: string | Variable): number {
  return typeof piece === 'string' ? Buffer.byteLength(piece) : piece.bytes;
}

function checkPath(path: string, bytes: number, maxBytes = maxPrefixBytes): readonly string[] {
  const problems: string[] = [];
  if (path.includes('..') || path.split('/').includes('.')) {
    problems.push('It must not contain .. or a folder named with a single dot.');
  }
  if (refusedCharacters.test(path)) problems.push('It must not contain control characters.');
  if (bytes > maxBytes) {
    const why = maxBytes < maxPrefixBytes ? ' with these partitions' : '';
    problems.push(
      `It must have at most ${maxBytes} bytes after its variables are filled in${why}.`,
    );
  }
  return problems;
}
