import type { Terminal } from '../../src/clients/cli/deps.ts';
import { runSluice } from '../../src/clients/cli/run-sluice.ts';
import type { ApiUnderTest } from './api-under-test.ts';

export interface CliResult {
  readonly code: number;
  /** Standard output. */
  readonly out: string;
  /** Standard error. */
  readonly err: string;
  /** Both, as they came. */
  readonly output: string;
}

export interface CliOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly input?: string;
  readonly isTerminal?: boolean;
  /** What a person answers; without it there is no person. */
  readonly answer?: string;
  readonly signal?: AbortSignal;
  /** Called with each piece of output. */
  readonly onOutput?: (text: string) => void;
}

/** The environment of a person who works on the first project of the tenant. */
export function cliEnv({ baseUrl, tenant }: ApiUnderTest): Record<string, string> {
  return {
    SLUICE_URL: baseUrl,
    SLUICE_KEY: tenant.key,
    SLUICE_PROJECT: String(tenant.projectIds[0]),
  };
}

/** Runs one command of `sluice` in this process: a process of its own takes a third of a second to start. */
export async function runCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  const { env, input = '', isTerminal = false, answer, onOutput = () => {} } = options;
  let [out, err, output] = ['', '', ''];
  const terminal: Terminal = {
    out(text) {
      out += text;
      output += text;
      onOutput(text);
    },
    err(text) {
      err += text;
      output += text;
      onOutput(text);
    },
    env: { ...env },
    isTerminal,
    drawsProgress: isTerminal,
    ask: answer === undefined ? null : async () => answer,
    readInput: async () => input,
    signal: options.signal ?? new AbortController().signal,
  };
  const code = await runSluice(args, terminal, '0.0.0-test');
  return { code, out, err, output };
}
