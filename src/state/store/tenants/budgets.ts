import type { Sql } from '../database/database.ts';

/** Each window begins with the first use after the one before has ended. */
type Span = 'minute' | 'hour' | 'day';

interface Window {
  readonly left: number;
  readonly endsInMs: number;
}

export type Taken<Spans extends Span> = Readonly<Record<Spans, Window>> & {
  /** The amount that the caller may let through; 0 if a window has less left than it needs. */
  readonly granted: number;
};

/** At least what is needed, or nothing; also a share of the rest, so a process writes rarely. @param owner an API key, or an organization */
export async function reserveFromBudget<Spans extends Span>(
  sql: Sql,
  owner: string,
  limits: Readonly<Record<Spans, number>>,
  needed: number,
  share: number,
): Promise<Taken<Spans>> {
  const spans = Object.keys(limits);
  const values = [owner, spans, Object.values(limits), needed, share];
  for (let isNew = false; ; isNew = true) {
    const rows = await sql.query<Window & { readonly span: Span; readonly granted: number }>(
      takeSql,
      values,
    );
    if (rows.length === spans.length) {
      const windows = rows.map(({ span, granted: _, ...window }) => [span, window]);
      return { ...Object.fromEntries(windows), granted: rows[0]?.granted ?? 0 };
    }
    if (isNew) throw new Error('a budget was deleted');
    await sql.query(
      `insert into used_budgets (owner, span) select $1, unnest($2::text[]) on conflict do nothing`,
      [owner, spans],
    );
  }
}

const takeSql = `with held as materialized (
    select * from used_budgets where owner = $1 and span = any ($2::text[]) order by span for update
  ), current as (
    select span, allowed, case when is_fresh then began_at else now() end as began_at,
           allowed - case when is_fresh then used else 0 end as left
      from unnest($2::text[], $3::bigint[]) as limits (span, allowed) join held using (span),
           lateral (select began_at > now() - ('1 ' || span)::interval as is_fresh) age
  ), taken as (
    select case when min("left") < $4::bigint then 0
                else greatest($4::bigint, ceil(min("left") * $5::float8)::bigint) end as granted from current
  )
  update used_budgets b set began_at = c.began_at, used = c.allowed - c.left + t.granted
    from current c, taken t where b.owner = $1 and b.span = c.span
  returning b.span, t.granted::float8 as granted, (c.left - t.granted)::float8 as left,
    ceil(extract(epoch from c.began_at + ('1 ' || b.span)::interval - now()) * 1000)::float8 as "endsInMs"`;

/** Counts what a worker stores for a project. @returns false, and counts nothing, if its organization may not store it today */
export async function countStoredBytes(
  sql: Sql,
  teamId: number,
  bytes: number,
  perDay: number,
): Promise<boolean> {
  const [project] = await sql.query<{ organizationId: string }>(
    `select organization_id as "organizationId" from projects where id = $1`,
    [teamId],
  );
  if (!project) return false;
  const taken = await reserveFromBudget(sql, project.organizationId, { day: perDay }, bytes, 0);
  return taken.granted > 0;
}
