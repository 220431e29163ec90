import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  command,
  inPages,
  queryAny,
  queryFirst,
  queryNumber,
  queryOne,
  queryRows,
} from '../database/statement.ts';
import { upToPageBytes, jsonBytes } from '../database/lists.ts';
import { handledLately, type StepVersion } from './chains.ts';

/** One use of a plugin by a project: a step of its chain. */
export interface TransformationConfig extends Omit<StepVersion, 'pluginName'> {
  readonly teamId: number;
  readonly enabled: boolean;
  readonly order: number;
  readonly description: string | null;
  readonly matchAction: number | null;
  readonly error: string | null;
  readonly deleted: boolean;
  readonly createdAt: Timestamp;
  readonly updatedAt: Timestamp;
  /** Share of the last 24 hours' rows that were handled without error; null without rows. */
  readonly deliveryRate: string | null;
}

export type TransformationSettings = Pick<
  TransformationConfig,
  'enabled' | 'order' | 'config' | 'secrets' | 'name' | 'description' | 'matchAction' | 'deleted'
>;

const columns = `c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from ${handledLately}) as "deliveryRate"`;

/** SQL that keeps the content of the rows of a CTE, if it is new, for the runs that will use it. */
const keepVersion = (from: string): string => `insert into transformation_versions
    (config_id, version, team_id, plugin, name, config, config_secrets)
  select id, version, team_id, plugin, name, config, config_secrets from ${from} on conflict do nothing`;

function valuesOf(settings: TransformationSettings): unknown[] {
  return [
    settings.enabled,
    settings.order,
    JSON.stringify(settings.config),
    settings.secrets,
    settings.name,
    settings.description,
    settings.matchAction,
    settings.deleted,
  ];
}

/** The id of the next config: its secrets are encrypted for it before it is stored. */
export const nextTransformationConfigId = queryOne<{ id: number }>(
  `select nextval(pg_get_serial_sequence('pipeline_transformation_configs', 'id')) as id`,
);

export const insertTransformationConfig = queryOne<
  TransformationConfig,
  [
    key: { readonly id: number; readonly teamId: number; readonly plugin: number },
    settings: TransformationSettings,
  ]
>(
  `with made as (
       insert into pipeline_transformation_configs
         (id, team_id, plugin, enabled, "order", config, config_secrets, name, description, match_action, deleted)
       overriding system value values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning *
     ), kept as (${keepVersion('made')})
     select ${columns} from made c`,
  (key, settings) => [key.id, key.teamId, key.plugin, ...valuesOf(settings)],
);

export const updateTransformationConfig = queryOne<
  TransformationConfig,
  [id: number, settings: TransformationSettings]
>(
  `with changed as (
       update pipeline_transformation_configs c
          set enabled = $2, "order" = $3, config = $4, config_secrets = $5, name = $6, description = $7,
              match_action = $8, deleted = $9, updated_at = clock_timestamp(),
              version = version + ((config, config_secrets, name) is distinct from ($4::jsonb, $5::bytea, $6::text))::int
        where c.id = $1 returning *
     ), kept as (${keepVersion('changed')})
     select ${columns} from changed c`,
  (id, settings) => [id, ...valuesOf(settings)],
);

/** Also finds configs that are marked deleted. */
export async function findTransformationConfig(
  sql: Sql,
  teamId: number,
  id: number,
  lock: 'for update' | '' = '',
): Promise<TransformationConfig | null> {
  const [row] = await sql.query<TransformationConfig>(
    `select ${columns} from pipeline_transformation_configs c where c.id = $1 and c.team_id = $2 ${lock}`,
    [id, teamId],
  );
  return row ?? null;
}

export type ChainStepPosition = Pick<TransformationConfig, 'id' | 'teamId' | 'plugin' | 'order'>;

/** The whole chain in the order of its steps, locked. Without the configs: there is no bound for all of them together. */
export const lockChain = queryRows<ChainStepPosition, [teamId: number]>(`
     select c.id, c.team_id as "teamId", c.plugin, c."order" from pipeline_transformation_configs c
      where c.team_id = $1 and not c.deleted order by c."order", c.id for update of c`);

/** Counts the enabled steps of a project, besides one of them. Waits for others that change the number. */
export async function countEnabledSteps(tx: Sql, teamId: number, besides: number): Promise<number> {
  await tx.query('select from projects where id = $1 for no key update', [teamId]);
  const [row] = await tx.query<{ count: number }>(
    `select count(*) from pipeline_transformation_configs
      where team_id = $1 and enabled and not deleted and id <> $2`,
    [teamId, besides],
  );
  return row?.count ?? 0;
}

/** A page has each plugin once, and the config as an object and as a text. */
const ofProject = `select c.*, octet_length(c.config::text) + ${jsonBytes('c.config::text')} + ${jsonBytes('c.error')}
        + case when row_number() over (partition by c.plugin order by c."order", c.id) = 1
          then coalesce((select octet_length(p.config_schema::text) from plugins p where p.id = c.plugin), 0) else 0 end as size
      from (select * from pipeline_transformation_configs
             where team_id = $1 and not deleted order by "order", id limit $2 offset $3) c order by c."order", c.id`;

export const listTransformationConfigs = inPages(
  queryNumber<[teamId: number]>(
    'select count(*) from pipeline_transformation_configs where team_id = $1 and not deleted',
  ),
  queryRows<TransformationConfig, [teamId: number, limit: number, offset: number]>(
    `select ${columns} from ${upToPageBytes(ofProject, 'page."order", page.id')} c order by c."order", c.id`,
  ),
);

export const moveSteps = command(
  `update pipeline_transformation_configs c set "order" = moved.place, updated_at = clock_timestamp()
       from unnest($2::int[], $3::int[]) as moved (id, place)
      where c.id = moved.id and c.team_id = $1`,
  (teamId: number, orders: ReadonlyMap<number, number>) => [
    teamId,
    [...orders.keys()],
    [...orders.values()],
  ],
);

export const deleteTransformationConfig = queryAny(
  'delete from pipeline_transformation_configs where id = $1 and team_id = $2 returning id',
  (teamId: number, id: number) => [id, teamId],
);

/** Asks the workers for a sample of a step. One that waits already is this one. */
export const askForSample = command<[configId: number]>(`
     update pipeline_transformation_configs set sample_asked_at = clock_timestamp(), sample_taken_at = null
      where id = $1`);

export interface TakenSample {
  readonly configId: number;
  readonly teamId: number;
  readonly organizationId: string;
  readonly askedAt: Timestamp;
}

/** The oldest of the last day without a worker, of the organization whose turn was longest ago. @param served the last one at the end */
export const takeSample = queryFirst<
  TakenSample,
  [served: readonly string[], besides: readonly string[]]
>(`
     update pipeline_transformation_configs c set sample_taken_at = now()
      where c.id = (
        select s.id from pipeline_transformation_configs s join projects p on p.id = s.team_id
         where (s.sample_taken_at is null or s.sample_taken_at < now() - interval '5 minutes')
           and s.sample_asked_at > now() - interval '1 day' and p.organization_id <> all ($2::uuid[])
         order by coalesce(array_position($1::uuid[], p.organization_id), 0), s.sample_asked_at, s.id
         limit 1 for update of s skip locked)
      returning c.id as "configId", c.team_id as "teamId", c.sample_asked_at as "askedAt",
                (select organization_id from projects where id = c.team_id) as "organizationId"`);

/** Ends a sample. If another was asked for since it was taken, that one waits. */
export const endSample = command(
  `update pipeline_transformation_configs set sample_asked_at = null, sample_taken_at = null
      where id = $1 and sample_asked_at = $2`,
  ({ configId, askedAt }: TakenSample) => [configId, askedAt],
);

export interface ChainExports {
  readonly total: number;
  readonly applying: number;
  /** The first ones by name. */
  readonly named: readonly { readonly id: string; readonly name: string }[];
}

const namedExports = 10;

export const findChainExports = queryOne<ChainExports, [teamId: number]>(
  `select count(*)::int as total, (count(*) filter (where e.transformations))::int as applying,
            (select coalesce(json_agg(json_build_object('id', n.id, 'name', n.name)), '[]')
               from (select x.id, x.name from batch_exports x
                      where x.team_id = $1 and x.deleted_at is null and x.transformations
                      order by x.name, x.id limit ${namedExports}) n) as named
       from batch_exports e where e.team_id = $1 and e.deleted_at is null`,
);

export const countChainSteps = queryNumber<[teamId: number]>(
  `select count(*) from pipeline_transformation_configs where team_id = $1 and enabled and not deleted`,
);
