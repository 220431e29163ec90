import type { PluginConfig } from '../../../foundation/domain/plugin.ts';
import type { PinnedStep, StepCount } from '../../../foundation/domain/recipe.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows, queryValue } from '../database/statement.ts';

const asChain = `jsonb_agg(jsonb_strip_nulls(jsonb_build_object('config', c.id, 'version', c.version, 'source',
    (select p.source_sha256 from plugins p where p.id = c.plugin))) order by c."order", c.id)`;

/** SQL: from its first claim on, the enabled steps of its project in order; none with transformations off. */
export const pinnedChainOf = (runs: string): string => `coalesce(${runs}.chain, (
  select ${asChain} from batch_exports e join pipeline_transformation_configs c on c.team_id = e.team_id and c.enabled and not c.deleted
   where e.id = ${runs}.export_id and e.transformations), '[]')`;

export async function findChain(sql: Sql, teamId: number): Promise<readonly PinnedStep[]> {
  const [row] = await sql.query<{ chain: readonly PinnedStep[] | null }>(
    `select ${asChain} as chain from pipeline_transformation_configs c
      where c.team_id = $1 and c.enabled and not c.deleted`,
    [teamId],
  );
  return row?.chain ?? [];
}

/** A version of a transformation config. Its secrets are still encrypted. */
export interface StepVersion {
  readonly id: number;
  /** Rises with each change of what the step does. */
  readonly version: number;
  readonly plugin: number;
  /** Null: the plugin's. */
  readonly name: string | null;
  /** Without secrets, which are encrypted separately. */
  readonly config: PluginConfig;
  readonly secrets: Buffer | null;
  /** The present name of an own plugin; null for a built-in one. */
  readonly pluginName: string | null;
}

/** The versions of a project's configs that a chain names, in its order; those that are gone are missing. */
export const findStepVersions = queryRows<
  StepVersion,
  [teamId: number, chain: readonly PinnedStep[]]
>(
  `select v.config_id as id, v.version, v.plugin, (select p.name from plugins p where p.id = v.plugin) as "pluginName", v.name, v.config, v.config_secrets as secrets
       from unnest($2::int[], $3::int[]) with ordinality as step (config, version, place)
       join transformation_versions v on v.config_id = step.config and v.version = step.version and v.team_id = $1
      order by step.place`,
  (teamId, chain) => [
    teamId,
    chain.map(({ config }) => config),
    chain.map(({ version }) => version),
  ],
);

/** The sources of plugins that a chain names, by their digests; those that are gone are missing. */
export async function findPluginSources(
  sql: Sql,
  chain: readonly PinnedStep[],
): Promise<ReadonlyMap<string, string>> {
  const digests = chain.flatMap(({ source }) => source ?? []);
  if (digests.length === 0) return new Map();
  const rows = await sql.query<{ sha256: string; source: string }>(
    'select sha256, source from plugin_sources where sha256 = any ($1::text[])',
    [digests],
  );
  return new Map(rows.map(({ sha256, source }) => [sha256, source]));
}

/** SQL: the rows that a step has handled in the last 24 hours, by the hour. */
export const handledLately = `(
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t`;

/** Adds a run's counts to the rates of its steps and shows each step's error, or that it works. */
export async function recordSteps(tx: Sql, steps: readonly StepCount[]): Promise<void> {
  if (steps.length === 0) return;
  const values = [
    steps.map(({ config }) => config),
    steps.map((step) => step.in),
    steps.map(({ errored }) => errored),
    steps.map(({ error }) => error),
  ];
  await tx.query(
    // Locked in the order of the chain, as a rearrangement does: they never wait for each other.
    `with step as materialized (
       select s.* from unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[]) as s (config, rows, errors, error)
         join pipeline_transformation_configs c on c.id = s.config order by c."order", c.id for no key update of c
     )
     update pipeline_transformation_configs c set error = step.error, handled = (
            select coalesce(jsonb_agg(h), '[]') from (
              select hour, sum(rows) as rows, sum(errors) as errors from (
                select * from ${handledLately}
                union all select date_trunc('hour', now()), step.rows, step.errors where step.rows > 0) as all_hours
               group by hour) as h)
       from step where c.id = step.config`,
    values,
  );
}

export const recordStepError = command<[teamId: number, configId: number, error: string]>(`
     update pipeline_transformation_configs set error = $3
      where id = $2 and team_id = $1 and error is distinct from $3`);

/** The enabled steps of a project up to one, which is included even if it is disabled. */
export async function findChainUpTo(
  sql: Sql,
  teamId: number,
  configId: number,
): Promise<readonly PinnedStep[]> {
  const [row] = await sql.query<{ chain: readonly PinnedStep[] | null }>(
    `select ${asChain} as chain from pipeline_transformation_configs c
       join pipeline_transformation_configs last on last.id = $2 and last.team_id = $1
      where c.team_id = $1 and (c.id = last.id or c.enabled and not c.deleted and (c."order", c.id) < (last."order", last.id))`,
    [teamId, configId],
  );
  return row?.chain ?? [];
}

/** The model of a project's newest export with transformations; null if it has none. */
export const findTransformedModel = queryValue<string, [teamId: number]>(`
     select model from batch_exports where team_id = $1 and transformations and deleted_at is null
      order by created_at desc limit 1`);
