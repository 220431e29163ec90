import { isoSeconds, refusedCharacters } from './key-template.ts';
import type { DataInterval } from './time.ts';

/**
 * The template of the names of an interval's data files, without the extension. The name begins with the bounds of the
 * interval, and what follows them has the generation and the part. Sluice leaves out {generation} for the first generation
 * and {part} for a single file, with the character in front. Two intervals, generations or parts never have one name.
 */

/** The default. It has no colon, which rsync, tar and Hadoop take for the end of a host or scheme. */
export const usualFileName = '{start}-{end}.{generation}-{part}';

/** With a prefix of 900 bytes, the extension and the end of a file of rejected rows, a key has 1,024 bytes. */
const maxNameBytes = 96;

/** `20240301T000000Z` */
const basic = (text: string): string => text.replace(/[-:]/g, '');

const bounds: Readonly<
  Record<string, { readonly of: 'start' | 'end'; readonly render: (iso: string) => string }>
> = {
  start: { of: 'start', render: basic },
  end: { of: 'end', render: basic },
  data_interval_start: { of: 'start', render: (iso) => iso },
  data_interval_end: { of: 'end', render: (iso) => iso },
};

/** The names that a template may have between braces, in the order of the documentation. */
export const fileNameVariables: readonly string[] = [
  ...['start', 'end', 'generation', 'part'],
  ...['data_interval_start', 'data_interval_end'],
];

/** The names of an interval's objects are made of these. */
export interface KeyNames {
  /** `<prefix>/<start>-<end>`: what all keys of the interval start with. */
  readonly stem: string;
  /** The rest of the template of a data file: `.{generation}-{part}`. */
  readonly tail: string;
}

/** @param prefix as `renderKeyTemplate` gives it; `''` for none */
export function keyNames(prefix: string, template: string, interval: DataInterval): KeyNames {
  const { head, tail } = cut(template);
  const name = head.replace(/\{(\w+)\}/g, (text, variable: string) => {
    const bound = bounds[variable];
    return bound ? bound.render(isoSeconds(interval[bound.of])) : text;
  });
  return { stem: prefix === '' ? name : `${prefix}/${name}`, tail };
}

/** The rest of a template after the bounds, with a generation and a part in any case: only they keep a re-run from a key in use. */
export function tailOf(template: string): string {
  return cut(template).tail;
}

function cut(template: string) {
  const ends = [...template.matchAll(/\{(?:data_interval_)?end\}/g)];
  const at = ends[0] ? ends[0].index + ends[0][0].length : template.length;
  let tail = template.slice(at);
  if (!tail.includes('{generation}')) tail += '.{generation}';
  if (!tail.includes('{part}')) tail += '-{part}';
  return { head: template.slice(0, at), tail };
}

/** Returns what follows the stem in the name of a data file. @param part from 1; null: the interval's only file */
export function renderTail(tail: string, generation: number, part: number | null): string {
  return (
    tail
      .replace(/(.)\{generation\}/, (_, separator: string) =>
        generation === 1 ? '' : `${separator}v${generation}`,
      )
      // Padded, so that keys sort in the order of the rows.
      .replace(/(.)\{part\}/, (_, separator: string) =>
        part === null ? '' : `${separator}${String(part).padStart(5, '0')}`,
      )
  );
}

const boundText = String.raw`\d{8}T\d{6}Z|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;

const anyKey = new RegExp(`^((?:.*/)?[^/]*?(${boundText})[^/]*?(?:${boundText}))([^/]*)$`);

/** Facts that a key says of itself. */
export interface KeyFacts {
  readonly stem: string;
  /** `2024-03-01T00:00:00Z`; it may be no date. */
  readonly start: string;
  readonly generation: number;
}

/** Reads a key of an interval's object, whatever the template; null if it has no bounds. */
export function readKey(key: string): KeyFacts | null {
  const [, stem, start, rest] = anyKey.exec(key) ?? [];
  if (stem === undefined || start === undefined || rest === undefined) return null;
  const generation = Number(/[-._]v(\d+)/.exec(rest)?.[1] ?? 1);
  return { stem, start: withColons(start), generation };
}

const withColons = (bound: string): string =>
  bound.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z');

export function keysOfTemplates(templates: readonly string[]): RegExp {
  const heads = templates.map((template) =>
    cut(template)
      .head.split(/(\{\w+\})/)
      .map((text) => (text in patterns ? patterns[text] : text.replace(/[^\w]/g, '\\$&')))
      .join(''),
  );
  return new RegExp(`(?:^|/)(?:${heads.join('|')})[^/]*$`);
}

const patterns: Readonly<Record<string, string>> = {
  '{start}': String.raw`\d{8}T\d{6}Z`,
  '{end}': String.raw`\d{8}T\d{6}Z`,
  '{data_interval_start}': String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`,
  '{data_interval_end}': String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`,
};

/** The problems of a template, as sentences for its owner; empty if it is valid. @param hasParts whether an interval can have several files */
export function checkFileName(template: string, hasParts: boolean): readonly string[] {
  const problems = [...checkVariables(template), ...checkText(template)];
  if (problems.length > 0) return problems;
  if (hasParts && !template.includes('{part}')) {
    return [
      'The files of one interval would have the same name. Add -{part}, or set max_file_size_mb to null.',
    ];
  }
  return checkReadable(template);
}

function checkVariables(template: string): readonly string[] {
  const problems: string[] = [];
  const names: string[] = [];
  for (const [text] of template.matchAll(/\{[^{}]*\}|[{}]/g)) {
    const name = text.slice(1, -1);
    if (text.length === 1) problems.push(`Unmatched brace ${text}.`);
    else if (fileNameVariables.includes(name)) names.push(name);
    else problems.push(`Unknown variable ${text}. Use one of: ${fileNameVariables.join(', ')}.`);
  }
  if (problems.length > 0) return problems;
  const kinds = names.map((name) => bounds[name]?.of ?? name);
  for (const bound of ['start', 'end']) {
    if (!kinds.includes(bound)) {
      problems.push(`Two intervals would have the same name. Add {${bound}}.`);
    }
  }
  if (problems.length > 0) return problems;
  if (new Set(kinds).size < kinds.length) problems.push('Use each variable once.');
  if (kinds[0] !== 'start' || kinds[1] !== 'end') {
    problems.push('Put {start} first, then {end}, and {generation} and {part} after them.');
  }
  if (/(?<![-._])\{(?:generation|part)\}/.test(template)) {
    problems.push('Put -, _ or . directly before {generation} and {part}.');
  }
  return problems;
}

function checkText(template: string): readonly string[] {
  const problems: string[] = [];
  if (template.includes('/'))
    problems.push('It must not contain a slash. Folders belong to prefix.');
  if (/^[._]/.test(template)) {
    problems.push('It must not begin with . or _, because Spark, Hive and Athena skip such files.');
  }
  if (refusedCharacters.test(template)) problems.push('It must not contain control characters.');
  return problems;
}

const samples = [
  { generation: 1, part: null },
  { generation: 1, part: 1 },
  { generation: 23, part: null },
  { generation: 23, part: 45 },
] as const;

/** Says whether what a name says can be read from it again: so different intervals and generations have different names. */
function checkReadable(template: string): readonly string[] {
  const interval = { start: Date.UTC(2024, 2, 1), end: Date.UTC(2024, 2, 2) };
  const { stem, tail } = keyNames('', template, interval);
  const start = isoSeconds(interval.start);
  const names = samples.map(({ generation, part }) => ({
    generation,
    name: `${stem}${renderTail(tail, generation, part)}`,
  }));
  const isReadable = names.every(({ generation, name }) => {
    const facts = readKey(name);
    return facts?.stem === stem && facts.start === start && facts.generation === generation;
  });
  if (!isReadable) {
    return [
      'Its fixed text must not look like a time or a version, such as 20240301T000000Z or .v2.',
    ];
  }
  // The longest: a generation has ten digits at most, a part seven.
  const longest = `${stem}${renderTail(tail, 1_000_000_000, 1_000_000)}`;
  if (Buffer.byteLength(longest) <= maxNameBytes) return [];
  return [`It must have at most ${maxNameBytes} bytes after its variables are filled in.`];
}
