import { spawnSync } from 'node:child_process';

/** Runs a program in this terminal. @returns its exit code; throws if it is not 0, unless it `mayFail` */
export function run(command, args, env = process.env, mayFail = false) {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env });
  if (status !== 0 && !mayFail) throw new Error(`${command} ${args.join(' ')} failed`);
  return status ?? 1;
}
