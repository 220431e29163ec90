import type pg from 'pg';
import { Grouped, KeyedGroups } from '../../../foundation/domain/grouped.ts';
import { unlessAborted } from '../../../foundation/domain/patience.ts';
import { copyBlock, type RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import type { Slice, SourceRequest, SourceSnapshot, KeySet } from '../source.ts';
import { begin } from './snapshot.ts';
import type { SnapshotOptions } from './snapshot-connections.ts';
import { closeConnection, destroyConnection, nameColumns } from './connection.ts';
import type { ConnectionLimit } from './connection-limit.ts';
import { type ReadRelation, rowSecuritySql } from './hidden-rows.ts';
import { KeyDigest } from './key-digest.ts';
import { findRefusal, readKindSql } from './refusal.ts';
import { PlannedRows, type PlanSelect, type RequestPlan, type SelectPlan } from './plan.ts';
import { readSlices, type SliceReading } from './copy-reader.ts';
import { areTablesReplaced, tablesReplaced } from './replaced-tables.ts';
import { findTypeChanges } from './schema-changes.ts';
import { sliceInterval } from './slices.ts';
import type { BatchAnswer } from './statement-batch.ts';

const mostRows = 1_000;
/** A statement that takes longer must not hold up others. */
const statementMs = 1_000;
/** The time that the requests of a project are opened alone after a group of it failed. */
const aloneForMs = 60_000;

interface Asked {
  readonly request: SourceRequest;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  readonly server: string | null;
}

type Answer = SourceSnapshot | null;

/**
 * One transaction counts and reads for small requests of one project. It ends before any is given out, so their rows are
 * in memory. Projects share none: its settings are a project's, and none delays another.
 */
export class JointSnapshots {
  readonly #options: SnapshotOptions;
  readonly #plan: PlanSelect;
  readonly #limit: ConnectionLimit;
  readonly #groups: KeyedGroups<Asked, Answer>;
  /** Until when the requests of a project are opened alone, by the monotonic clock. */
  readonly #aloneUntil = new Map<string, number>();

  constructor(options: SnapshotOptions, plan: PlanSelect, limit: ConnectionLimit) {
    const refuse = async () => {
      throw new Error('the row is too large for a snapshot in memory');
    };
    this.#options = { ...options, statementTimeoutMs: statementMs, holdRow: refuse };
    this.#plan = plan;
    this.#limit = limit;
    this.#groups = new KeyedGroups(
      () =>
        new Grouped(
          (all) => this.#openAll(all),
          () => true,
        ),
    );
  }

  /** Null if it is not small, or something failed: it must be opened alone. @throws the signal's reason if it aborts */
  async open(asked: Asked): Promise<Answer> {
    const { request, signal, server } = asked;
    const { tenantKey } = request;
    if ((this.#aloneUntil.get(tenantKey) ?? 0) > performance.now()) return null;
    return unlessAborted(this.#groups.take(JSON.stringify([tenantKey, server]), asked), signal);
  }

  async #openAll(all: readonly Asked[]): Promise<readonly Answer[]> {
    const [first] = all;
    if (!first) return [];
    const { tenantKey } = first.request;
    const { signal, end } = joinSignals(all.map((asked) => asked.signal));
    let leave = () => {};
    try {
      leave = await this.#limit.enter(signal);
      return await this.#read(all, tenantKey, first.server, signal);
    } catch {
      // The request that is opened alone finds what is wrong.
      if (!signal.aborted) this.#standAlone(tenantKey);
      return all.map(() => null);
    } finally {
      leave();
      end();
    }
  }

  #standAlone(tenantKey: string): void {
    const now = performance.now();
    for (const [id, until] of this.#aloneUntil) if (until <= now) this.#aloneUntil.delete(id);
    this.#aloneUntil.set(tenantKey, now + aloneForMs);
  }

  async #read(
    all: readonly Asked[],
    tenantKey: string,
    server: string | null,
    signal: AbortSignal,
  ): Promise<readonly Answer[]> {
    const planned = planAll(this.#plan, all);
    const relations = new Map(
      planned.map(({ plan: { relation } }) => [identityOf(relation), relation]),
    );
    const shapes = shapesOf(planned);
    const reader = { tenantKey, rowSecurity: rowSecuritySql([...relations.values()], false) };
    const statements = [
      ...shapes.map((sql) => ({ sql, describeOnly: true })),
      { sql: countSqlOf(planned, [...relations.values()]) },
    ];
    const settled = { position: null, server };
    const begun = await begin(this.#options, reader, settled, statements, signal);
    const { client, answers } = begun;
    let isWhole = false;
    try {
      const values = answers[shapes.length]?.rows[0] ?? [];
      const kinds = values.slice(planned.length);
      const refused = await findRefused(client, [...relations], kinds, signal);
      const described = new Map(shapes.map((sql, index) => [sql, answers[index]?.fields ?? []]));
      const small: Small[] = [];
      for (const [index, one] of planned.entries()) {
        if (refused.has(identityOf(one.plan.relation))) continue;
        const snapshot = await this.#asSmall(client, one, Number(values[index]), described, signal);
        if (snapshot) small.push(snapshot);
      }
      await readRows(client, small, signal);
      isWhole = true;
      const snapshot = `${begun.snapshot}@${begun.serverStart}`;
      const opened: Answer[] = all.map(() => null);
      for (const { index, leftBytes, reading, ...held } of small) {
        const { select, keys } = reading;
        const of = { ...held, keys, snapshot, takenAt: begun.takenAt };
        if (leftBytes >= 0) opened[index] = new MemorySnapshot(select, of);
      }
      return opened;
    } finally {
      if (isWhole) void (this.#options.kept?.give(client) ?? closeConnection(client));
      else destroyConnection(client);
    }
  }

  async #asSmall(
    client: pg.Client,
    { index, asked: { request, maxBytes }, plan }: Planned,
    rows: number,
    described: ReadonlyMap<string, BatchAnswer['fields']>,
    signal: AbortSignal,
  ): Promise<Small | null> {
    const slices = sliceInterval(request.interval, this.#options.sliceMs, rows);
    if (!(rows < mostRows) || slices.length > 1) return null;
    const { used } = plan;
    const nameShape = (sql: string) => nameColumns(client, described.get(sql) ?? [], signal);
    const named = await nameShape(plan.describeSql);
    const usedShape = used.describeSql === null ? named : await nameShape(used.describeSql);
    // The request that is opened alone says what has changed.
    if ((await findTypeChanges(client, used.columns, usedShape, signal)).length > 0) return null;
    const select = plan.select(named);
    const reading = { options: this.#options, select, keys: new KeyDigest() };
    return { index, reading, slices, rows, leftBytes: maxBytes, blocks: [] };
  }
}

interface Small {
  readonly index: number;
  readonly reading: SliceReading;
  readonly slices: readonly Slice[];
  readonly rows: number;
  /** Negative: it has too many bytes. */
  leftBytes: number;
  blocks: RowBlock[];
}

interface Planned {
  readonly index: number;
  readonly asked: Asked;
  readonly plan: RequestPlan;
}

function planAll(plan: PlanSelect, all: readonly Asked[]): readonly Planned[] {
  return all.flatMap((asked, index) => {
    try {
      return [{ index, asked, plan: plan(asked.request) }];
    } catch {
      return [];
    }
  });
}

function shapesOf(planned: readonly Planned[]): readonly string[] {
  const all = planned.map(({ plan }) => [plan.describeSql, plan.used.describeSql ?? []].flat());
  return [...new Set(all.flat())];
}

/** One row: a count for each request, and then the kind of each relation. */
function countSqlOf(planned: readonly Planned[], relations: readonly ReadRelation[]): string {
  const counts = planned.map(({ asked: { request }, plan }) => {
    return `(${plan.countSql(request.interval, mostRows)})`;
  });
  return `SELECT ${[...counts, ...relations.map(readKindSql)].join(', ')}`;
}

async function readRows(
  client: pg.Client,
  small: readonly Small[],
  signal: AbortSignal,
): Promise<void> {
  const parts = small.flatMap((one) =>
    one.slices.map((slice) => ({ one, reading: one.reading, slice })),
  );
  for await (const { of, block } of readSlices(client, parts, signal)) {
    const one = parts[of]?.one;
    if (!one) continue;
    one.leftBytes -= block.bytes.length;
    if (one.leftBytes < 0) one.blocks = [];
    else one.blocks.push(copyBlock(block));
  }
}

/** Models of one relation can differ in the column of the tenant, and in what may be left out. */
const identityOf = (relation: ReadRelation): string => JSON.stringify(relation);

/** @param kinds of the relations, in their order @throws SluiceError if a table was replaced meanwhile */
async function findRefused(
  client: pg.Client,
  relations: readonly (readonly [string, ReadRelation])[],
  kinds: readonly (string | null)[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const refused = new Set<string>();
  if (kinds.every((kind) => kind === 'plain')) return refused;
  if (await areTablesReplaced(client, signal)) throw tablesReplaced();
  for (const [index, [identity, relation]] of relations.entries()) {
    if (kinds[index] === 'plain' || kinds[index] === 'tables') continue;
    if (await findRefusal(client, relation, signal)) refused.add(identity);
  }
  return refused;
}

function joinSignals(signals: readonly AbortSignal[]): {
  readonly signal: AbortSignal;
  readonly end: () => void;
} {
  const joined = new AbortController();
  const note = () => {
    if (signals.every(({ aborted }) => aborted)) joined.abort(signals[0]?.reason);
  };
  for (const signal of signals) signal.addEventListener('abort', note, { once: true });
  note();
  const end = () => {
    for (const signal of signals) signal.removeEventListener('abort', note);
  };
  return { signal: joined.signal, end };
}

interface Held {
  readonly blocks: readonly RowBlock[];
  readonly rows: number;
  readonly keys: KeyDigest;
  readonly slices: readonly Slice[];
  readonly snapshot: string;
  readonly takenAt: Instant;
}

/** The rows of a request in memory. Its transaction has ended. */
class MemorySnapshot extends PlannedRows implements SourceSnapshot {
  readonly typeChanges: readonly string[] = [];
  readonly totalCount: number;
  readonly snapshot: string;
  readonly sequence = null;
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  readonly #keys: KeyDigest;
  #blocks: readonly RowBlock[];

  constructor(select: SelectPlan, { blocks, rows, keys, slices, snapshot, takenAt }: Held) {
    super(select);
    this.totalCount = rows;
    this.snapshot = snapshot;
    this.takenAt = takenAt;
    this.slices = slices;
    this.#keys = keys;
    this.#blocks = blocks;
  }

  async countRows(): Promise<number> {
    return this.totalCount;
  }

  keySet(): KeySet | null {
    return this.select.keys && this.#keys.set;
  }

  readKeySet(): never {
    throw new Error('the rows are in memory, without their transaction');
  }

  share(): never {
    return this.readKeySet();
  }

  async *read(_: Slice, signal: AbortSignal): AsyncGenerator<RowBlock> {
    for (const block of this.#blocks) {
      signal.throwIfAborted();
      yield block;
    }
  }

  async close(): Promise<void> {
    this.#blocks = [];
  }
}
