import type pg from 'pg';
import { Grouped } from '../../../foundation/domain/grouped.ts';
import { KeyedGroups } from '../../../foundation/domain/keyed-groups.ts';
import { unlessAborted } from '../../../foundation/domain/patience.ts';
import { copyBlock, type RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import type { Slice, SourceRequest, SourceSnapshot, KeySet } from '../source.ts';
import { begin, type SnapshotOptions } from './begin-snapshot.ts';
import { closeConnection, destroyConnection, nameColumns } from './connection.ts';
import type { ConnectionLimit } from './connection-limit.ts';
import { type ReadRelation, rowSecuritySql } from './hidden-rows.ts';
import { KeyDigest } from './key-digest.ts';
import { readKindSql } from './plain-table.ts';
import { type PlanSelect, type RequestPlan, type SelectPlan, showsKeys } from './plan.ts';
import { readSlices, type SliceReading } from './read-slice.ts';
import { findRefusal } from './refusal.ts';
import { areTablesReplaced, tablesReplaced } from './replaced-tables.ts';
import { findTypeChanges } from './schema-changes.ts';
import { sliceInterval } from './slices.ts';
import type { BatchAnswer, BatchStatement } from './statement-batch.ts';

/** A request with as many rows, or more, is opened alone. */
const mostRows = 1_000;
/** A statement that takes longer must not hold up others. */
const statementMs = 1_000;
/** The time that the requests of a project are opened alone after a group of it failed. */
const aloneForMs = 60_000;

/** A request that is opened together with others. */
interface Asked {
  readonly request: SourceRequest;
  readonly signal: AbortSignal;
  /** Maximum bytes of its rows. */
  readonly maxBytes: number;
  /** The start of the server at which the interval settled. */
  readonly server: string | null;
}

type Answer = SourceSnapshot | null;

/**
 * Opens the snapshots of small requests of one project together: one transaction counts and reads for all of them. It ends
 * before any of them is given out, so their rows are in memory. Projects never share one: its settings are those of a
 * project, and what a tenant makes slow delays no other.
 */
export class JointSnapshots {
  readonly #options: SnapshotOptions;
  readonly #plan: PlanSelect;
  readonly #limit: ConnectionLimit;
  readonly #groups: KeyedGroups<Asked, Answer>;
  /** Until when the requests of a project are opened alone, by the monotonic clock. */
  readonly #aloneUntil = new Map<string, number>();

  /** @param limit of groups that are opened at a time */
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

  /**
   * @returns null if the request must be opened alone: it is not small, or something failed
   * @throws the signal's reason if it aborts
   */
  async open(asked: Asked): Promise<Answer> {
    const { request, signal, server } = asked;
    const { tenantKey } = request;
    if ((this.#aloneUntil.get(tenantKey) ?? 0) > performance.now()) return null;
    return unlessAborted(this.#groups.take(JSON.stringify([tenantKey, server]), asked), signal);
  }

  /** Opens the requests of one project, whose intervals settled at the same server. */
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
    const { client, snapshot, serverStart, takenAt, answers } = await begin(
      this.#options,
      { tenantKey, rowSecurity: rowSecuritySql(planned.relations, false) },
      { position: null, server },
      statementsOf(all, planned),
      signal,
    );
    let isWhole = false;
    try {
      const answered = readAnswers(planned, answers);
      const small = await this.#findSmall(client, all, { ...planned, ...answered }, signal);
      await readRows(client, small, signal);
      isWhole = true;
      const opened: Answer[] = all.map(() => null);
      for (const { index, leftBytes, reading, ...held } of small) {
        if (leftBytes < 0) continue;
        const { select, keys } = reading;
        const of = { ...held, select, keys, snapshot: `${snapshot}@${serverStart}`, takenAt };
        opened[index] = new MemorySnapshot(of);
      }
      return opened;
    } finally {
      if (isWhole) void this.#end(client);
      else destroyConnection(client);
    }
  }

  /** Those whose rows are read here. The others are opened alone. */
  async #findSmall(
    client: pg.Client,
    all: readonly Asked[],
    { plans, relations, described, counted, kinds }: Planned & Answered,
    signal: AbortSignal,
  ): Promise<readonly Small[]> {
    const isPlain = kinds.every((kind) => kind === 'plain');
    if (!isPlain && (await areTablesReplaced(client, signal))) throw tablesReplaced();
    const others = relations.filter(
      (_, index) => !['plain', 'tables'].includes(kinds[index] ?? ''),
    );
    const refused = await findRefusedOf(client, others, signal);
    const small: Small[] = [];
    for (const [index, { request, maxBytes }] of all.entries()) {
      const plan = plans[index];
      const rows = counted[index] ?? null;
      const slices = sliceInterval(request.interval, this.#options.sliceMs, rows ?? 0);
      const isSmall = rows !== null && rows < mostRows && slices.length < 2;
      if (!plan || !isSmall || refused.has(identityOf(plan.relation))) continue;
      const { used } = plan;
      const nameShape = (sql: string) => nameColumns(client, described.get(sql) ?? [], signal);
      const named = await nameShape(plan.describeSql);
      const usedShape = used.describeSql === null ? named : await nameShape(used.describeSql);
      // The request that is opened alone says what has changed.
      if ((await findTypeChanges(client, used.columns, usedShape, signal)).length > 0) continue;
      const select = plan.select(named);
      const keys = new KeyDigest();
      const reading = { options: this.#options, select, keys };
      small.push({ index, reading, slices, rows, leftBytes: maxBytes, blocks: [] });
    }
    return small;
  }

  /** Never rejects. */
  async #end(client: pg.Client): Promise<void> {
    const { kept } = this.#options;
    await (kept ? kept.give(client) : closeConnection(client));
  }
}

/** A request whose rows stay in memory. */
interface Small {
  /** Of the request. */
  readonly index: number;
  readonly reading: SliceReading;
  /** One, or none if there are no rows. */
  readonly slices: readonly Slice[];
  readonly rows: number;
  /** Negative: it has too many bytes. */
  leftBytes: number;
  blocks: RowBlock[];
}

/** The statements of a group of requests. */
interface Planned {
  /** Null for a request that cannot be planned. */
  readonly plans: readonly (RequestPlan | null)[];
  /** The SELECTs to describe, each once. */
  readonly shapes: readonly string[];
  readonly relations: readonly ReadRelation[];
}

function planAll(plan: PlanSelect, all: readonly Asked[]): Planned {
  const plans = all.map((asked) => tryPlan(plan, asked.request));
  const planned = plans.filter((found) => found !== null);
  const shapes = planned.flatMap(({ describeSql, used }) => [describeSql, used.describeSql ?? []]);
  const relations = new Map(planned.map(({ relation }) => [identityOf(relation), relation]));
  return { plans, shapes: [...new Set(shapes.flat())], relations: [...relations.values()] };
}

function statementsOf(
  all: readonly Asked[],
  { plans, shapes, relations }: Planned,
): readonly BatchStatement[] {
  const counts = all.flatMap(({ request: { interval } }, index) => {
    const sql = plans[index]?.countSql(interval, mostRows);
    return sql === undefined ? [] : [`(${sql})`];
  });
  return [
    ...shapes.map((sql) => ({ sql, describeOnly: true })),
    { sql: `SELECT ${[...counts, ...relations.map(readKindSql)].join(', ')}` },
  ];
}

/** The server's answer about a group. */
interface Answered {
  /** By the SELECT that was described. */
  readonly described: ReadonlyMap<string, BatchAnswer['fields']>;
  /** By request; null if it has no plan. */
  readonly counted: readonly (number | null)[];
  /** By relation. */
  readonly kinds: readonly (string | null | undefined)[];
}

function readAnswers(
  { plans, shapes, relations }: Planned,
  answers: readonly BatchAnswer[],
): Answered {
  const values = [...(answers[shapes.length]?.rows[0] ?? [])];
  return {
    described: new Map(shapes.map((sql, index) => [sql, answers[index]?.fields ?? []])),
    counted: plans.map((plan) => (plan ? Number(values.shift()) : null)),
    kinds: relations.map(() => values.shift()),
  };
}

/** Reads the rows of all, as long as each keeps to its bytes. */
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

function tryPlan(plan: PlanSelect, request: SourceRequest): RequestPlan | null {
  try {
    return plan(request);
  } catch {
    return null;
  }
}

/** Models of one relation can differ in the column of the tenant, and in what may be left out. */
const identityOf = (relation: ReadRelation): string => JSON.stringify(relation);

/** @returns the identities of relations whose rows are not exported */
async function findRefusedOf(
  client: pg.Client,
  relations: readonly ReadRelation[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const refused = new Set<string>();
  for (const relation of relations) {
    if (await findRefusal(client, relation, signal)) refused.add(identityOf(relation));
  }
  return refused;
}

/** Aborts when all of them have aborted. */
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
  readonly select: SelectPlan;
  readonly slices: readonly Slice[];
  readonly blocks: readonly RowBlock[];
  readonly rows: number;
  readonly keys: KeyDigest;
  readonly snapshot: string;
  readonly takenAt: Instant;
}

/** The rows of a request in memory. Its transaction has ended. */
class MemorySnapshot implements SourceSnapshot {
  readonly columns;
  readonly hasDays: boolean;
  readonly typeChanges: readonly string[] = [];
  readonly keyIndices: readonly number[];
  readonly showsKeys: boolean;
  readonly totalCount: number;
  readonly snapshot: string;
  readonly sequence = null;
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  readonly projection;
  readonly #keys: KeyDigest | null;
  #blocks: readonly RowBlock[];

  constructor({ select, slices, blocks, rows, keys, snapshot, takenAt }: Held) {
    this.columns = select.columns;
    this.hasDays = select.moment?.type === 'date';
    this.keyIndices = select.keys?.places.filter((place) => place < this.columns.length) ?? [];
    this.showsKeys = showsKeys(select);
    this.projection = select.projection;
    this.totalCount = rows;
    this.snapshot = snapshot;
    this.takenAt = takenAt;
    this.slices = slices;
    this.#keys = select.keys === null ? null : keys;
    this.#blocks = blocks;
  }

  async countRows(): Promise<number> {
    return this.totalCount;
  }

  keySet(): KeySet | null {
    return this.#keys && { digest: this.#keys.read(), count: this.#keys.count };
  }

  readKeySet(): Promise<KeySet> {
    throw new Error('the rows are in memory, without their transaction');
  }

  share(): Promise<SourceSnapshot> {
    throw new Error('the rows are in memory, without their transaction');
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
