export { checkModel, findTenant, type ModelReport } from './postgres/check-model.ts';
export { ConnectionLimit } from './postgres/connection-limit.ts';
export { type ConnectionRoom, readConnectionRoom } from './postgres/connection-room.ts';
export { countEvents, ensureEventsTable, generateEvents } from './postgres/events-table.ts';
export { findGrants } from './postgres/grants.ts';
export { planModels } from './postgres/plan.ts';
export {
  createPostgresSource,
  type PostgresSourceOptions,
} from './postgres/postgres-source.ts';
export { ensureSourceRole, type SourceRole } from './postgres/source-role.ts';
