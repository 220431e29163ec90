export { planModels } from './postgres/plan.ts';
export {
  createPostgresSource,
  type PostgresSourceOptions,
} from './postgres/postgres-source.ts';
