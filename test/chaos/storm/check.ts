import { columnNames, type Delivered, readDelivered, rowOf } from './delivered.ts';
import type { StormExport, World } from './world.ts';

/** What is not as it must be; each list names rows, files or intervals. */
export interface Verdict {
  readonly rows: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly changed: readonly string[];
  /** Rows that the source does not have any more, or never had. */
  readonly foreign: readonly string[];
  /** Rows that were delivered before they left the source, and are not in the files any more: `export: key`. */
  readonly gone: readonly string[];
  readonly untrue: readonly string[];
  /** Intervals that had a run and that nothing current holds. */
  readonly missing: readonly string[];
}

/** Compares the source with what all exports have delivered, row by row. */
export async function compare(world: World): Promise<Verdict> {
  const verdict = {
    rows: 0,
    lost: [] as string[],
    doubled: [] as string[],
    changed: [] as string[],
    foreign: [] as string[],
    gone: [] as string[],
    untrue: [] as string[],
    missing: [] as string[],
  };
  for (const one of world.exports) {
    const intervals = await readDelivered(world.installation, one, verdict.untrue);
    const source = await readSource(world, one);
    const seen = new Map<string, string>();
    for (const { start, rows } of intervals) {
      for (const [key, values] of rows) {
        verdict.rows += 1;
        const at = `${one.name} ${start}: ${key}`;
        if (seen.has(key)) verdict.doubled.push(`${at} and ${seen.get(key)}`);
        seen.set(key, start);
        const expected = source.get(key);
        if (expected === undefined) verdict.foreign.push(at);
        else if (expected.values !== values) verdict.changed.push(at);
      }
    }
    for (const delivery of world.pruned) {
      const [name, key = ''] = delivery.split(': ');
      if (name === one.name && !seen.has(key)) verdict.gone.push(delivery);
    }
    const covered = coverOf(intervals);
    for (const [key, { at }] of source) {
      if (!seen.has(key) && covered(at)) {
        verdict.lost.push(`${one.name}: ${key} of ${new Date(at).toISOString()}`);
      }
    }
    const starts = intervals.map(({ start }) => Date.parse(start));
    for (const start of await readRunStarts(world, one)) {
      const times = starts.filter((found) => found === start).length;
      const interval = `${one.name} ${new Date(start).toISOString()}`;
      if (times === 0) verdict.missing.push(interval);
      if (times > 1) verdict.doubled.push(`${interval} is current ${times} times`);
    }
  }
  return verdict;
}

function coverOf(intervals: readonly Delivered[]): (at: number) => boolean {
  const ranges = intervals.map(({ start, end }) => [Date.parse(start), Date.parse(end)] as const);
  return (at) => ranges.some(([start, end]) => at >= start && at < end);
}

async function readSource({ installation }: World, { model }: StormExport) {
  const names = columnNames(model);
  const time = names.at(-1);
  const { rows } = await installation.pool.query<Record<string, unknown> & { at_ms: number }>(
    `select *, to_char(${time} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as ${time},
            floor(extract(epoch from ${time}) * 1000)::float8 as at_ms
       from ${model} where team_id = $1`,
    [installation.tenant.projectIds[0]],
  );
  return new Map(
    rows.map((row) => {
      const [key, values] = rowOf(names.map((name) => row[name]));
      return [key, { values, at: row.at_ms }] as const;
    }),
  );
}

async function readRunStarts({ installation }: World, { id }: StormExport) {
  const { rows } = await installation.sql<{ start: Date }>`select distinct data_interval_start
    as start from runs where export_id = ${id}`;
  return rows.map(({ start }) => start.getTime());
}
