import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

/** A program, and the checker that it runs. */
type Checker = readonly [program: string, file: string];

const both: readonly Checker[] = [
  ['node', 'client/check/sluice-check.mjs'],
  ['python3', 'client/check/sluice_check.py'],
];

/** The checkers of the package that this checkout has. */
export const checkers = both.filter(([, file]) => existsSync(file));

/** Runs a checker over a place, with the digests of files. @returns its exit code, and its last line */
export async function runChecker(
  [program, file]: Checker,
  folder: string,
  ...more: readonly string[]
): Promise<string> {
  const run = promisify(execFile)(program, [file, folder, '--deep', ...more]);
  const { code, stdout } = await run.then(
    (ended) => ({ ...ended, code: 0 }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      stdout: error.stdout + error.stderr,
    }),
  );
  return `${code}: ${stdout.trim().split('\n').at(-1) ?? ''}`;
}
