import { execFile, type SpawnOptions, spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';

const runFile = promisify(execFile);

/** PostgreSQL refuses uid 0, so root gives it another user; any other user runs it as themselves (`user` null). */
export interface ServerIdentity {
  readonly user: { readonly uid: number; readonly gid: number } | null;
}

/** The environment of the server's programs, without any of our variables (PGDATA, LC_ALL …). */
const cleanEnvironment = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' };

/** A directory stays with its owner; a new one belongs to `postgres`, or `nobody`. Fails if neither exists. */
export async function chooseIdentity(dataDirectory: string): Promise<ServerIdentity> {
  if (process.getuid?.() !== 0) return { user: null };
  const owner = await stat(dataDirectory).catch(() => null);
  if (owner !== null && owner.uid !== 0) return { user: { uid: owner.uid, gid: owner.gid } };
  for (const name of ['postgres', 'nobody']) {
    const uid = await lookUp('-u', name);
    const gid = await lookUp('-g', name);
    if (uid !== null && gid !== null) return { user: { uid, gid } };
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is no user postgres or nobody' +
      '. Start as another user, or set DATABASE_URL.',
  );
}

async function lookUp(flag: '-u' | '-g', name: string): Promise<number | null> {
  const idOutput = await runFile('id', [flag, name]).catch(() => null);
  return idOutput && Number.parseInt(idOutput.stdout, 10);
}

/** Options of spawn with which a program of the server runs as `identity`. */
export function spawnOptionsFor(identity: ServerIdentity, dataDirectory: string): SpawnOptions {
  const options = { cwd: dataDirectory, env: cleanEnvironment };
  if (identity.user === null) return options;
  // spawn takes signed numbers only; on macOS the uid of `nobody` is 4294967294.
  return { ...options, uid: identity.user.uid | 0, gid: identity.user.gid | 0 };
}

/** As it is passed to the server, whose user may not enter the parents: every server process keeps its working directory. */
export function dataDirectoryArgument(identity: ServerIdentity, dataDirectory: string): string {
  const indirect = identity.user !== null && process.platform === 'linux';
  return indirect ? '/proc/self/cwd' : dataDirectory;
}

export interface ProgramResult {
  /** Null if the program could not start or was ended by a signal. */
  readonly code: number | null;
  /** Standard output and standard error, as they came. */
  readonly output: string;
}

/** Runs one program of the server to its end. Never fails; a program that cannot start has code null. */
export function runProgram(
  program: string,
  args: readonly string[],
  options: SpawnOptions,
  input = '',
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { ...options, stdio: 'pipe' });
    const chunks: string[] = [];
    child.stdout?.setEncoding('utf8').on('data', (text: string) => chunks.push(text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => chunks.push(text));
    // A program that ends without reading its input breaks the pipe; its exit code is enough.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    child.once('error', (error) => resolve({ code: null, output: error.message }));
    child.once('close', (code) => resolve({ code, output: chunks.join('') }));
  });
}

export async function canEnter(identity: ServerIdentity, directory: string): Promise<boolean> {
  if (identity.user === null) return true;
  const options = spawnOptionsFor(identity, '/');
  const result = await runProgram('/bin/sh', ['-c', 'cd -- "$0"', directory], options);
  return result.code === 0;
}
