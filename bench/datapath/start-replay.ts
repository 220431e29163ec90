import { fork } from 'node:child_process';
import path from 'node:path';

/** The replaying server, from its parent's side. */
export interface Replay {
  readonly url: string;
  stop(): void;
}

/** @param server whose answers it keeps */
export async function startReplay(server: string): Promise<Replay> {
  const child = fork(path.join(import.meta.dirname, 'replay.js'), [server]);
  const port = await new Promise<number>((resolve) => child.once('message', resolve));
  const url = new URL(server);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return { url: url.href, stop: () => child.disconnect() };
}
