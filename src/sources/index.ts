export {
  createPostgresSource,
  type PostgresSourceOptions,
} from './postgres/postgres-source.ts';
