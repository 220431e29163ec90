import type { PluginConfig } from '../../foundation/domain/plugin.ts';
import {
  type Edit,
  type Json,
  JsonObject,
  type JsonText,
  listOf,
  objectOf,
  quote,
} from '../../rows/transforms/json.ts';
import { RowError } from '../../rows/transforms/effort.ts';
import { TextWriter } from '../../rows/transforms/text-writer.ts';
import type { KeyedRow, StepResult, StepResults } from '../../rows/transforms/step.ts';
import type { Row } from '../../rows/transforms/transform.ts';
import type { Prepare, Prepared } from './child/main.ts';
import type { SourceProblem } from './child/source-problem.ts';
import { defaultLimits, maxSourceChars, SandboxError, type SandboxLimits } from './limits.ts';
import { parsersFolder, PluginProcess } from './plugin-process.ts';
import { makePrograms } from './program.ts';
import type { Change } from './realm/diff.ts';
import type { LogLine, PluginLog } from './realm/plugin-log.ts';

export interface SandboxOptions {
  readonly source: string;
  /** Complete: checked against the plugin's schema, with its defaults and secrets. */
  readonly config: PluginConfig;
  /** The plugin's clock shows it. The same for every run of the interval. */
  readonly intervalEndMs: number;
  readonly limits?: Partial<SandboxLimits>;
  /** An abort ends the process at once; what waits for it gets a SandboxError `unavailable`. */
  readonly signal?: AbortSignal;
  /** Takes what the plugin writes to `console`, bounded, and how many lines were left out. */
  readonly onLog?: (lines: readonly LogLine[], omitted: number) => void;
}

/** After a SandboxError it has ended. */
export interface Sandbox {
  /**
   * One batch at a time, in order; the next may be given meanwhile.
   * @param rows read once, before this returns. Random numbers come from its key and the end of the interval
   * @returns results that are made one at a time; an error of a row is a `PluginRowError`
   * @throws SandboxError which ends the run, also when a result is asked for: none of these rows has a result
   */
  apply(rows: Iterable<KeyedRow>): Promise<StepResults>;
  /** By the kernel too; if not, Node alone confines it. */
  readonly isConfined: boolean;
  close(): Promise<void>;
}

/** An error of a row. `detail` is the plugin's own text, which may quote the row: show it to its owner only. */
export class PluginRowError extends RowError {
  readonly detail: string;

  constructor(reason: string, detail: string) {
    super(reason);
    this.detail = detail;
  }
}

/** @throws SandboxError with the fault `invalid` for a source that `inspectPlugin` refuses */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const limits = { ...defaultLimits, ...options.limits };
  const { signal } = options;
  const { process: child, problems, isConfined } = await prepare(options.source, limits, signal);
  const endOnAbort = () => void child.kill();
  try {
    signal?.addEventListener('abort', endOnAbort, { once: true });
    if (signal?.aborted) await child.kill();
    const [problem] = problems;
    if (problem) throw new SandboxError('invalid', describeProblem(problem));
    const { config, intervalEndMs } = options;
    const patience = { wholeMs: limits.openMs, rowMs: limits.openMs };
    const text = await child.ask('open', JSON.stringify({ config, intervalEndMs }), patience);
    const [answer] = takeReply(text, options, 1);
    if (answer !== unchanged) {
      const error = readAnswer(new JsonObject(new Map()), answer);
      const reason = error instanceof PluginRowError ? error.detail : 'it cannot be set up.';
      throw new SandboxError('setup', `its setupPlugin failed: ${reason}`);
    }
  } catch (error) {
    signal?.removeEventListener('abort', endOnAbort);
    await child.kill();
    throw error;
  }
  let bodyBytes = firstBodyBytes;
  return { isConfined, apply, close };

  async function apply(rows: Iterable<KeyedRow>): Promise<StepResults> {
    const body = new Body(bodyBytes);
    let length = 0;
    for (const { key, row } of rows) {
      const keyStart = body.open();
      body.write(key);
      body.close(keyStart);
      const rowStart = body.open();
      row.writeTo(body);
      body.close(rowStart);
      length += 1;
    }
    const message = body.finish();
    bodyBytes = Math.min(message.length + (message.length >> 3), maxFirstBodyBytes);
    const patience = { wholeMs: limits.batchMs, rowMs: limits.rowMs };
    const text = await child.ask('batch', message, patience);
    const answers = readable(() => takeReply(text, options, length));
    return { length, at: (index, row) => readable(() => readAnswer(row, answers[index])) };
  }

  function readable<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (cause) {
      void child.kill();
      const message = 'its sandbox gave an answer that cannot be read.';
      throw new SandboxError('crashed', message, { cause });
    }
  }

  async function close(): Promise<void> {
    signal?.removeEventListener('abort', endOnAbort);
    const patience = { wholeMs: limits.rowMs, rowMs: limits.rowMs };
    // A batch that has no answer yet gets none: then no hook can run.
    if (!child.isBusy) {
      await child
        .ask('close', '', patience)
        .then((text) => takeReply(text, options, 1))
        .catch(() => {});
    }
    await child.kill();
  }
}

export async function findSourceProblems(
  source: string,
  limits: SandboxLimits = defaultLimits,
): Promise<readonly SourceProblem[]> {
  const { process: child, problems } = await prepare(source, limits);
  await child.kill();
  return problems;
}

interface PreparedProcess {
  readonly process: PluginProcess;
  readonly problems: readonly SourceProblem[];
  readonly isConfined: boolean;
}

async function prepare(
  source: string,
  limits: SandboxLimits,
  signal?: AbortSignal,
): Promise<PreparedProcess> {
  const programs = await makePrograms();
  const child = PluginProcess.start(programs.child, limits);
  const endOnAbort = () => void child.kill();
  signal?.addEventListener('abort', endOnAbort, { once: true });
  if (signal?.aborted) endOnAbort();
  const patience = { wholeMs: limits.openMs, rowMs: limits.openMs };
  try {
    if (source.length > maxSourceChars) {
      const detail = `It is longer than ${maxSourceChars} characters.`;
      return { process: child, problems: [{ line: null, detail }], isConfined: false };
    }
    const { rowMs, maxAnswerChars } = limits;
    const { realm } = programs;
    const message: Prepare = { source, realm, parsersFrom: parsersFolder(), rowMs, maxAnswerChars };
    const { problems } = await askFor(child, 'prepare', JSON.stringify(message), patience);
    const isConfined = await child.confine();
    if (problems.length > 0) return { process: child, problems, isConfined };
    const inspected = await askFor(child, 'inspect', '', patience);
    return { process: child, problems: inspected.problems, isConfined };
  } catch (error) {
    await child.kill();
    throw error;
  } finally {
    signal?.removeEventListener('abort', endOnAbort);
  }
}

async function askFor(
  child: PluginProcess,
  request: 'prepare' | 'inspect',
  text: string,
  patience: { readonly wholeMs: number; readonly rowMs: number },
): Promise<Prepared> {
  return JSON.parse(await child.ask(request, text, patience));
}

export function describeProblem({ line, detail }: SourceProblem): string {
  return line === null ? detail : `Line ${line}: ${detail}`;
}

const firstBodyBytes = 256 * 1024;
const maxFirstBodyBytes = 4 * 1024 ** 2;

/** A line for each row, which `readAnswer` reads; the last one is the log. */
function takeReply(text: string, { onLog }: SandboxOptions, count: number): readonly string[] {
  const answers = text.split('\n');
  const log: ReturnType<PluginLog['take']> = JSON.parse(answers.pop() ?? '');
  if (answers.length !== count) {
    throw new TypeError(`There are ${answers.length} answers, not ${count}.`);
  }
  if (log.lines.length > 0) onLog?.(log.lines, log.omitted);
  return answers;
}

const unchanged = '0';

function readAnswer(row: Row, text: string | undefined): StepResult {
  if (text === undefined) throw new TypeError('There is no such row.');
  if (text === unchanged) return row;
  const answer: unknown = JSON.parse(text);
  if (answer === null) return null;
  if (typeof answer !== 'object') throw new TypeError('The answer is none.');
  if ('e' in answer) return readError(answer.e);
  const after = applyChange(row, answer as Change);
  if (!(after instanceof JsonObject)) throw new TypeError('The answer is no row.');
  return after;
}

function readError(given: unknown): PluginRowError {
  const [kind, text] = Array.isArray(given) ? given.map(String) : [];
  const detail = text ?? '';
  if (kind === 'never settled') {
    return new PluginRowError('The promise that processEvent returned never settles.', '');
  }
  if (kind === 'returned') {
    const what = /^[a-z ]{1,20}$/.test(detail) ? detail : 'something else';
    const reason = `processEvent returned ${what}. Return the event, or null to drop it.`;
    return new PluginRowError(reason, detail);
  }
  // The message of an error may quote the row; its name does not, if it looks like one.
  const name = /^[A-Z][A-Za-z]{0,39}(?=:)/.exec(detail)?.[0] ?? 'value';
  const verb = kind === 'unreadable' ? 'The event it returned threw' : 'The plugin threw';
  const article = /^[AEIOU]/.test(name) ? 'an' : 'a';
  return new PluginRowError(`${verb} ${article} ${name}.`, detail);
}

const lengthBytes = 4;
const maxSpareBytes = 1_024 ** 2;

class Body extends TextWriter {
  constructor(bytes: number) {
    super(bytes, 0, maxSpareBytes);
  }

  /** Begins a piece with its length before it. @returns what `close` needs */
  open(): number {
    this.ensure(lengthBytes);
    this.length += lengthBytes;
    return this.length;
  }

  close(start: number): void {
    this.bytes.writeUInt32LE(this.length - start, start - lengthBytes);
  }

  finish(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

const fewChanges = 32;

/** Unnamed parts keep their source text. @throws TypeError if it is none, or does not fit the value */
function applyChange(before: Json | undefined, change: Change): Json {
  if (typeof change !== 'object' || change === null) throw new TypeError('No change.');
  if ('v' in change) return jsonOf(change.v);
  return 'l' in change ? applyToList(before, change) : applyToObject(before, change);
}

function applyToObject(
  before: Json | undefined,
  { p, d }: Extract<Change, { d: string[] }>,
): JsonObject {
  const object = objectOf(before);
  if (!object) throw new TypeError('The change is one of an object.');
  const names = Object.keys(p);
  // To find many members one by one would take long.
  const from = names.length > fewChanges ? object.members : object;
  const removed = d.length > fewChanges ? new Set(d) : null;
  const isRemoved = (name: string) => removed?.has(name) ?? d.includes(name);
  const edits = d.map((name): Edit => [name, undefined]);
  for (const name of names) {
    const change = p[name] as Change;
    // A new value needs no look at the old one.
    const isNew = typeof change === 'object' && change !== null && 'v' in change;
    const before = isNew || isRemoved(name) ? undefined : from.get(name);
    edits.push([name, applyChange(before, change)]);
  }
  return object.edit(edits);
}

function applyToList(
  before: Json | undefined,
  { l, p }: Extract<Change, { l: number }>,
): readonly Json[] {
  const list = listOf(before);
  if (!list || !Number.isSafeInteger(l) || l < 0)
    throw new TypeError('The change is one of a list.');
  const prefix = list.slice(0, l);
  const changed = new Map(Object.entries(p));
  if (l > list.length + changed.size) throw new TypeError('The list has holes.');
  return Array.from({ length: l }, (_, index) => {
    const change = changed.get(String(index));
    const element = change ? applyChange(prefix[index], change) : prefix[index];
    if (element === undefined) throw new TypeError('The list has holes.');
    return element;
  });
}

function jsonOf(value: unknown): Json {
  if (typeof value === 'string') return quote(value);
  const text = (JSON.stringify(value) ?? 'null') as JsonText;
  return objectOf(text) ?? text;
}
