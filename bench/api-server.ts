import { randomUUID } from 'node:crypto';
import fastify from 'fastify';
import { buildApi } from '../src/service/api/build-api.ts';
import { type Database, openDatabase } from '../src/state/store/database/database.ts';
import { createLogger } from '../src/foundation/telemetry/logger.ts';
import { testApiOptions } from '../test/support/test-api-options.ts';
import { replay, type Script, type Statement } from './api-statements.ts';

/** What a server needs to know before it starts. */
export interface ServerOrder {
  readonly databaseUrl: string;
  /** Null: our API. Else a bare one, that asks these statements of each route. */
  readonly bare: Scripts | null;
}

export interface Scripts {
  readonly list: Script;
  readonly retrieve: Script;
  readonly create: Script;
  /** The id and the project of the recorded create; each create of the bare server has its own. */
  readonly createdId: string;
  readonly createdIn: number;
}

/** Limits that no measurement reaches. */
export const boundless = { perMinute: 1_000_000_000, perHour: 2_000_000_000 };

/** A process of its own for each server, with as many connections. */
process.once('message', async ({ databaseUrl, bare }: ServerOrder) => {
  const db = openDatabase({
    connectionString: databaseUrl,
    applicationName: 'bench-api',
    maxConnections: 20,
    onError: () => {},
  });
  const options = { rateLimit: boundless, logger: createLogger('info') };
  const server = bare
    ? bareServer(db, bare)
    : await buildApi(testApiOptions(db, databaseUrl, options));
  const url = await server.listen({ port: 0, host: '127.0.0.1' });
  process.on('message', async (ask) => {
    if (ask === 'usage') return process.send?.(process.cpuUsage());
    await server.close();
    await db.close();
    process.disconnect();
  });
  process.send?.(url);
});

type Row = Record<string, unknown>;

/** The same statements, their rows as they come, in an answer of the same shape. */
function bareServer(db: Database, { list, retrieve, create, createdId, createdIn }: Scripts) {
  const server = fastify();
  server.get('/list', async () => {
    const [, exports = [], runs = []] = (await replay(db, list)) as Row[][];
    return {
      count: exports[0]?.count,
      next: null,
      previous: null,
      results: exports.map((row) =>
        shown(
          row,
          runs.filter((run) => run.exportId === row.id),
        ),
      ),
    };
  });
  server.get('/retrieve', async () => {
    const [, [row = {}] = [], runs = []] = (await replay(db, retrieve)) as Row[][];
    return shown(row, runs);
  });
  server.post<{ Params: { project: string } }>('/create/:project', async (request, reply) => {
    const own = new Map<unknown, unknown>([
      [createdId, randomUUID()],
      [createdIn, Number(request.params.project)],
    ]);
    const ownOf = (value: unknown) => own.get(value) ?? value;
    const renamed = ({ text, values }: Statement): Statement => ({
      text,
      values: values.map((value) => (Array.isArray(value) ? value.map(ownOf) : ownOf(value))),
    });
    const script = create.map((step) => ('text' in step ? renamed(step) : step.map(renamed)));
    const rows = ((await replay(db, script)) as Row[][]).flat();
    reply.code(201);
    return shown(rows.find((row) => 'destinationType' in row) ?? {}, []);
  });
  return server;
}

/** Without the columns that no answer shows. */
function shown(row: Row, latestRuns: readonly Row[]): Row {
  row.destinationSecrets = undefined;
  row.schedule = undefined;
  row.latest_runs = latestRuns;
  return row;
}
