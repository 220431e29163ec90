import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { keyNames, usualFileName } from '../../src/foundation/domain/file-name.ts';
import type { Element } from '../../src/foundation/domain/element.ts';
import type { RecordedElement } from '../../src/rows/changes/plan-element.ts';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import type { CommitIntent, RecordedFiles } from '../../src/foundation/domain/receipt.ts';
import type { ExportedInterval } from '../../src/rows/pipeline/export-interval.ts';
import type { IntervalJob, IntervalSource } from '../../src/rows/pipeline/interval-job.ts';
import { decodeManifest, type Manifest } from '../../src/rows/pipeline/manifest.ts';
import type { Source, SourceRequest, SourceSnapshot } from '../../src/rows/sources/source.ts';
import { keysUnder, readAll } from '../conformance/destination-suite.ts';
import { tenant } from './changing-table.ts';
import { attempt, encodingOf, firstJob, jobAfter } from './interval-bench.ts';
import { hourRequest } from './source-tables.ts';

/** A row as a reader has it: its columns, without those of the sequence. */
export type Rows = ReadonlyMap<string, string>;

export type AttemptFate =
  | 'recorded'
  | 'dies before manifest'
  | 'dies after manifest'
  | 'dies reading';

/** The service's side of a sequence: what it records, and what it forgets. */
export class SequenceSide {
  #source: Source;
  readonly #destination: Destination;
  readonly #changes: Partial<IntervalJob>;
  #tick = 0;
  #last: RecordedElement | null = null;
  #begun: Element[] = [];
  #run: { readonly id: string; attempts: number; intent: CommitIntent | null } | null = null;
  #digests: string[] = [];
  /** What was recorded since the newest base. */
  #recorded: { readonly job: IntervalJob; readonly exported: ExportedInterval }[] = [];
  newBase = 0;
  era = 'era';
  /** The rows of the source in the snapshot of each element that was ever begun. */
  readonly truth = new Map<number, Rows>();
  readonly logged: string[] = [];
  /** Called once the keys of all elements are read, before the rows of the source. */
  afterReading = async () => {};

  constructor(source: Source, destination: Destination, changes: Partial<IntervalJob> = {}) {
    this.#source = source;
    this.#destination = destination;
    this.#changes = changes;
  }

  get last(): Element | null {
    return this.#last?.element ?? null;
  }

  /** The source is at another address from now on. */
  readFrom(source: Source): void {
    this.#source = source;
  }

  /** The export moves: its files are elsewhere from now on. */
  move(): void {
    if (this.#last) this.#last = { ...this.#last, isHere: false };
  }

  /** A newer tick is due: the run ends without success. */
  giveUp(): void {
    this.#run = null;
    this.#digests = [];
    this.#tick += 1;
  }

  /** One attempt of the run of this tick. */
  async attempt(fate: AttemptFate): Promise<void> {
    this.#run ??= { id: randomUUID(), attempts: 0, intent: null };
    const run = this.#run;
    run.attempts += 1;
    const hour = 3_600_000;
    const start = Date.UTC(2024, 2, 1) + this.#tick * hour;
    const interval = { start, end: start + hour };
    const request = hourRequest({ model: 'things', tenantKey: tenant, interval, whole: true });
    const job = firstJob({
      ...{ mode: 'changes', runId: run.id, attempt: run.attempts, generation: run.attempts },
      ...{ interval, request, names: keyNames('p', usualFileName, interval), era: this.era },
      encoding: encodingOf({ file_format: 'JSONLines' }),
      intent: run.intent,
      mayBeOvertaken: this.#digests.length > 0,
      begunManifests: this.#digests,
      ...this.#changes,
      sequence: { last: this.#last, begun: this.#begun, newBase: this.newBase },
    });
    const seen: { rows: Rows | null } = { rows: null };
    const dies = new Error(fate);
    const exported = attempt({ source: this.#watched(seen, fate, dies) }, this.#destination, job, {
      log: (_, message) => void this.logged.push(message),
      readElements: () => this.#readElements(),
      confirmCommit: async (intent) => {
        const { element } = intent;
        if (!element || !seen.rows) throw new Error('a commit of no element');
        run.intent = intent;
        this.#begun.push(element);
        this.#digests = [...(intent.begunManifests ?? [])];
        this.truth.set(element.number, seen.rows);
        if (fate === 'dies before manifest') throw dies;
      },
    }).exported;
    const made = await exported.catch((error: unknown) => {
      if (fate === 'recorded' || error !== dies) throw error;
      return null;
    });
    const result = made?.result;
    if (!made || !result?.element || fate === 'dies after manifest') return;
    if (result.element.base !== null) this.#recorded = [];
    this.#recorded.push({ job, exported: made });
    this.#last = { element: result.element, era: this.era, isHere: true, interval };
    this.#begun = [];
    this.giveUp();
  }

  async *#readElements(): AsyncGenerator<RecordedFiles> {
    for (const { exported } of this.#recorded) {
      const { element, generation, files, recipe } = exported.result;
      if (element) yield { element, generation, files, recipe };
    }
  }

  /** The keys of the files that a compare reads. */
  get files(): readonly string[] {
    return this.#recorded.flatMap(({ exported }) => exported.result.files.map(({ key }) => key));
  }

  /** Erases the rows with a value from all elements since the newest base. */
  async erase(column: string, value: string): Promise<void> {
    const sourceless = { source: {} as IntervalSource };
    for (const [index, { job, exported }] of this.#recorded.entries()) {
      const erasing = jobAfter(job, exported, {
        ...{ purpose: 'erase', erased: { column, value }, sequence: null },
      });
      const { exported: erased } = attempt(sourceless, this.#destination, erasing);
      this.#recorded[index] = { job: erasing, exported: await erased };
    }
  }

  /** Reads the whole table in the very snapshot of the element. */
  #watched(seen: { rows: Rows | null }, fate: AttemptFate, dies: Error): IntervalSource {
    const source = this.#source;
    const open = async (request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot> => {
      await this.afterReading();
      const snapshot = await source.open(request, signal);
      const { element: _, ...whole } = request;
      const shared = await snapshot.share(whole, signal);
      seen.rows = await readRows(shared, signal);
      await shared.close();
      if (fate !== 'dies reading') return snapshot;
      await snapshot.close();
      throw dies;
    };
    return {
      settle: (...asked) => source.settle(...asked),
      describe: (...asked) => source.describe(...asked),
      readSequence: (...asked) => source.readSequence(...asked),
      open,
    };
  }
}

async function readRows(snapshot: SourceSnapshot, signal: AbortSignal): Promise<Rows> {
  const rows = new Map<string, string>();
  const encoder = encodingOf({ file_format: 'JSONLines' }).open(snapshot.columns);
  let text = '';
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) {
      text += Buffer.concat(await encoder.write(block)).toString();
      encoder.release?.();
    }
  }
  text += Buffer.concat(await encoder.finish()).toString();
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const row = JSON.parse(line);
    rows.set(String(row.id), JSON.stringify(row));
  }
  return rows;
}

/** Makes an element, and checks that a reader has the rows of the source. @returns why the element is a base */
export async function follow(side: SequenceSide, reader: SequenceReader, destination: Destination) {
  await side.attempt('recorded');
  await reader.catchUp(destination);
  expect(reader.applied).toBe(side.last?.number);
  const truth = side.truth.get(reader.applied) ?? [];
  expect([...reader.rows].toSorted()).toEqual([...truth].toSorted());
  return side.last?.base ?? null;
}

/** A customer's program that applies elements in the order of their numbers, whenever it looks. */
export class SequenceReader {
  readonly #keys: readonly string[];
  readonly rows = new Map<string, string>();
  applied = -1;
  /** False if keys that are gone may still be in the rows. */
  isComplete = true;

  constructor(keys: readonly string[] = ['id']) {
    this.#keys = keys;
  }

  /** Applies what has been published since it last looked. */
  async catchUp(destination: Destination): Promise<void> {
    const manifests = await readManifests(destination);
    const numberOf = ({ element }: Manifest) => element?.number ?? -1;
    const news = manifests.filter((manifest) => numberOf(manifest) > this.applied);
    for (const manifest of news.toSorted((a, b) => numberOf(a) - numberOf(b))) {
      await this.#apply(destination, manifest);
    }
  }

  async #apply(destination: Destination, { element, files }: Manifest): Promise<void> {
    if (!element) throw new Error('a manifest without an element');
    if (element.follows === null) this.rows.clear();
    else if (element.follows > this.applied) {
      throw new Error(`element ${element.number} follows ${element.follows}, which is missing`);
    }
    for (const { key } of files) {
      const text = (await readAll(destination, key))?.toString() ?? '';
      for (const line of text.split('\n').filter((one) => one !== '')) {
        const {
          _sluice_op: op,
          _sluice_version: _,
          _sluice_element: number,
          ...row
        } = JSON.parse(line);
        if (number !== element.number) throw new Error('a row of another element');
        const key = this.#keys.map((name) => String(row[name])).join();
        if (op === 'd') this.rows.delete(key);
        else this.rows.set(key, JSON.stringify(row));
      }
    }
    this.applied = element.number;
    this.isComplete = element.complete ?? true;
  }
}

export async function readManifests(destination: Destination): Promise<readonly Manifest[]> {
  const keys = await keysUnder(destination, 'p/');
  const found = [];
  for (const key of keys.filter((one) => one.endsWith('_manifest.json'))) {
    found.push(await decodeManifest((await readAll(destination, key)) ?? Buffer.alloc(0)));
  }
  return found.filter((manifest) => manifest !== null);
}
