import { Client } from 'pg';
import type { Installation } from '../support/installation.ts';
import { peakMib, type TestProcess } from '../support/processes.ts';

/** What happened to the processes while it watched. */
export interface Watched {
  /** Peaks, in MiB, from the start of each process. */
  readonly apiPeaks: readonly number[];
  readonly workerPeaks: readonly number[];
  /** Processes of ours that ended. */
  readonly exited: readonly string[];
  /** Signs that PostgreSQL restarted, as a whole or after the crash of a backend. */
  readonly databaseRestarts: readonly string[];
}

export interface Watch {
  /** Ends it. Call it before the processes are stopped. */
  finish(): Promise<Watched>;
}

export async function startWatch(installation: Installation): Promise<Watch> {
  const restarts: string[] = [];
  // A crash of any backend ends all connections, while the postmaster goes on.
  const witness = new Client({ connectionString: installation.databaseUrl });
  witness.on('error', (error) => restarts.push(`a connection was ended: ${error.message}`));
  await witness.connect();
  const startedAt = await postmasterStart(installation);
  const peaks = new Map<number, number>();
  const look = setInterval(() => {
    for (const { pid } of installation.processes) {
      const peak = peakMib(pid);
      if (peak !== null) peaks.set(pid, peak);
    }
  }, 1_000);
  return {
    async finish() {
      clearInterval(look);
      const peakOf = ({ pid }: TestProcess) => peakMib(pid) ?? peaks.get(pid) ?? Number.NaN;
      const workers = new Set(installation.workers);
      const now = await postmasterStart(installation);
      if (now !== startedAt) restarts.push(`the server started at ${now}`);
      const found = restarts.slice();
      await witness.end();
      return {
        apiPeaks: installation.processes.filter((one) => !workers.has(one)).map(peakOf),
        workerPeaks: installation.workers.map(peakOf),
        exited: installation.processes
          .filter((one) => one.hasExited())
          .map((one) => `process ${one.pid}: ${one.output().slice(-300)}`),
        databaseRestarts: found,
      };
    },
  };
}

async function postmasterStart({ sql }: Installation): Promise<string> {
  const { rows } = await sql<{ at: string }>`select pg_postmaster_start_time()::text as at`;
  return rows[0]?.at ?? '';
}
