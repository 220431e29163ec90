import { SluiceError, StepFault } from '../../foundation/domain/errors.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import type { OpenOwnStep, OwnSteps } from '../../rows/transforms/own-steps.ts';
import type { BatchStep, StepFacts, StepResults } from '../../rows/transforms/step.ts';
import { SandboxError, type SandboxLimits } from './limits.ts';
import { type LogLine, maxChars } from './realm/plugin-log.ts';
import { describeProblem, findSourceProblems, openSandbox, type Sandbox } from './sandbox.ts';

export function ownPlugins(limits: Partial<SandboxLimits> = {}): OwnSteps {
  return {
    async inspect(source) {
      try {
        return await inspectPlugin(source);
      } catch (error) {
        if (!(error instanceof SandboxError)) throw error;
        throw new SluiceError('transformation.sandbox_ended', error.message, error);
      }
    },
    async open({ source, config, secrets, ...facts }, options): Promise<OpenOwnStep> {
      const { intervalEndMs, log: write = () => {} } = options;
      const log = new StepLog(facts, secrets, write);
      const failed = new AbortController();
      const signal = AbortSignal.any([options.signal, failed.signal]);
      const given = { source, config, intervalEndMs, limits, signal, onLog: log.add.bind(log) };
      const naming = { facts, log, signal: options.signal };
      const sandbox = await explained(naming, () => openSandbox(given));
      return {
        step: { ...facts, kind: 'batch', applyBatch: batchOf(sandbox, naming) },
        async close(hasFailed) {
          if (hasFailed) failed.abort();
          await sandbox.close();
          log.end();
        },
      };
    },
  };
}

export const ownSteps: OwnSteps = ownPlugins();

interface Naming {
  readonly facts: StepFacts;
  readonly log: StepLog;
  readonly signal: AbortSignal;
}

function batchOf(sandbox: Sandbox, naming: Naming): BatchStep['applyBatch'] {
  return async (rows) => {
    const results = await explained(naming, () => sandbox.apply(rows));
    const at: StepResults['at'] = (index, row) => {
      try {
        return results.at(index, row);
      } catch (error) {
        throw explain(naming, error);
      }
    };
    return { length: results.length, at };
  };
}

async function explained<Result>(naming: Naming, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explain(naming, error);
  }
}

/** The text names it. @throws the reason of the signal */
function explain({ facts: { id, name }, log, signal }: Naming, error: unknown) {
  signal.throwIfAborted();
  if (!(error instanceof SandboxError)) return error;
  const { fault } = error;
  const detail = `step ${id} (${name}): ${log.withoutSecrets(error.message)}`;
  if (fault === 'unavailable')
    return new SluiceError('transformation.sandbox_ended', detail, error);
  const isUnfit = fault === 'invalid' || fault === 'setup';
  const code = isUnfit ? 'transformation.invalid' : 'transformation.plugin_failed';
  return new StepFault(code, id, detail, error);
}

/**
 * None: the plugin can be installed. In a sandbox the text of the module runs, but no hook.
 * @throws SandboxError with the fault `unavailable` if no sandbox can be started
 */
export async function inspectPlugin(source: string): Promise<Problem[]> {
  try {
    const problems = await findSourceProblems(source);
    return problems.map((problem) => fault('source', describeProblem(problem)));
  } catch (error) {
    if (!(error instanceof SandboxError) || error.fault === 'unavailable') throw error;
    return [fault('source', `The plugin cannot be loaded: ${error.message}`)];
  }
}

function fault(attr: string, detail: string): Problem {
  return { code: 'invalid_input', detail, attr };
}

/** Lines of one step in the log of one run. */
const maxLines = 200;
const mask = '********';
const levels = { debug: 'DEBUG', info: 'INFO', warn: 'WARNING', error: 'WARNING' } as const;

export class StepLog {
  readonly #facts: StepFacts;
  readonly #secrets: readonly string[];
  readonly #write: (level: 'DEBUG' | 'INFO' | 'WARNING', message: string) => void;
  #lines = 0;
  #omitted = 0;

  constructor(
    facts: StepFacts,
    secrets: readonly string[],
    write: (level: 'DEBUG' | 'INFO' | 'WARNING', message: string) => void,
  ) {
    this.#facts = facts;
    this.#secrets = formsOf(secrets);
    this.#write = write;
  }

  add(lines: readonly LogLine[], omitted: number): void {
    const { id, name } = this.#facts;
    this.#omitted += omitted;
    for (const { level, text } of lines) {
      if (this.#lines === maxLines) this.#omitted += 1;
      else {
        this.#lines += 1;
        const shown = this.withoutSecrets(text).slice(0, maxChars);
        this.#write(levels[level] ?? 'INFO', `Step ${id} (${name}) writes: ${shown}`);
      }
    }
  }

  end(): void {
    if (this.#omitted === 0) return;
    const { id, name } = this.#facts;
    const line = `Step ${id} (${name}): ${this.#omitted} lines of its plugin were left out.`;
    this.#write('INFO', line);
  }

  /** A secret that the end of the text cuts is hidden too. */
  withoutSecrets(text: string): string {
    let shown = text;
    for (const secret of this.#secrets) shown = shown.replaceAll(secret, mask);
    for (const secret of this.#secrets) {
      for (let length = secret.length - 1; length >= minCut; length -= 1) {
        if (shown.endsWith(secret.slice(0, length))) {
          shown = `${shown.slice(0, -length)}${mask}`;
          break;
        }
      }
    }
    return shown;
  }
}

/** A shorter beginning of a secret says too little of it. */
const minCut = 4;

/** Each secret as it is and as JSON writes it, longest first: one may contain another. */
function formsOf(secrets: readonly string[]): readonly string[] {
  const forms = secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  return [...new Set(forms)].filter((form) => form !== '').sort((a, b) => b.length - a.length);
}
