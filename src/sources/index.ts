export { countEvents, ensureEventsTable } from './postgres/events-table.ts';
export { generateEvents } from './postgres/generate-events.ts';
export { planModel } from './postgres/plan-model.ts';
export {
  createPostgresSource,
  type PostgresSourceOptions,
} from './postgres/postgres-source.ts';
