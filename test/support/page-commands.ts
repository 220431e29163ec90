import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { projectRoot } from './processes.ts';

/** The commands of a page of `docs`, a text for each block (```sh), in their order. */
export function readCommands(page: string): readonly string[] {
  const text = readFileSync(path.join(projectRoot, 'docs', page), 'utf8');
  return [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].map(([, block = '']) => block);
}

/** Whether the shell finds each of the programs. */
export const hasPrograms = (...names: readonly string[]): boolean =>
  names.every((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0);

/** Runs commands as a person in `cwd` would; `sluice` is that of the build. Stops at the first that fails. */
export function runCommands(
  commands: string,
  {
    cwd,
    env,
    bin,
  }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly bin: string },
): Promise<{ readonly code: number | null; readonly output: string }> {
  const program = path.join(projectRoot, 'dist/clients/cli/sluice.js');
  const script = `sluice() { '${process.execPath}' '${program}' "$@"; }\nset -eu\n${commands}`;
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', script], {
      cwd,
      env: { ...process.env, ...env, PATH: `${bin}${path.delimiter}${process.env.PATH}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}
