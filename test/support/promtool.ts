import { spawnSync } from 'node:child_process';

/** Whether Prometheus's own checker is on the PATH: Debian's package `prometheus` has it. */
export const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

/** For the names of tests that need it. */
export const promtoolNote = hasPromtool ? '' : ' (skipped: no promtool on the PATH)';

/** Runs `promtool` in `folder`, with `input` on its standard input. @returns its exit code and what it printed */
export function runPromtool(
  args: readonly string[],
  { folder, input = '' }: { readonly folder?: string; readonly input?: string } = {},
): { readonly code: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, {
    cwd: folder,
    input,
    encoding: 'utf8',
  });
  return { code: status, output: `${stdout}${stderr}` };
}

/**
 * What `promtool check metrics` has against an answer of /metrics, one per line: that it cannot be read, and
 * names and units that break a custom. The names of `nodejs_…` are prom-client's.
 */
export function checkMetrics(text: string): readonly string[] {
  const { output } = runPromtool(['check', 'metrics'], { input: text });
  return output.split('\n').filter((line) => line !== '' && !line.startsWith('nodejs_'));
}
