import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** The ways to a real Redis on this machine; a test run looks for them once. */
export interface RedisWays {
  /** REDIS_URL: a server that is not ours to stop. */
  readonly url: string | null;
  /** The `redis-server` on the PATH. */
  readonly program: string | null;
  /** Whether a Docker engine answers; the client alone runs nothing. Asked only if it is needed. */
  readonly docker: boolean;
}

export async function findRedis(): Promise<RedisWays> {
  const url = process.env.REDIS_URL || null;
  const program = await findOnPath('redis-server');
  const docker = url === null && program === null && (await dockerAnswers());
  return { url, program, docker };
}

async function findOnPath(name: string): Promise<string | null> {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    if (folder === '') continue;
    const file = path.join(folder, name);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return null;
}

async function dockerAnswers(): Promise<boolean> {
  try {
    const info = await promisify(execFile)('docker', ['info', '-f', '{{.ServerVersion}}'], {
      timeout: 5_000,
    });
    return info.stdout.trim() !== '';
  } catch {
    return false;
  }
}
