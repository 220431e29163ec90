import { fork } from 'node:child_process';
import path from 'node:path';

/** The sink, from its parent's side. */
export interface Sink {
  readonly endpoint: string;
  /** Bytes of objects that have come since the last time. */
  take(): Promise<number>;
  stop(): void;
}

export async function startSink(): Promise<Sink> {
  const child = fork(path.join(import.meta.dirname, 'sink.js'));
  const answer = () => new Promise<number>((resolve) => child.once('message', resolve));
  const port = await answer();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    take() {
      const bytes = answer();
      child.send('take');
      return bytes;
    },
    stop: () => child.disconnect(),
  };
}
