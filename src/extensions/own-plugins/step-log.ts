import type { StepFacts } from '../../rows/transforms/step.ts';
import { type LogLine, maxChars } from './realm/plugin-log.ts';

/** Lines of one step in the log of one run. */
const maxLines = 200;
const mask = '********';
const levels = { debug: 'DEBUG', info: 'INFO', warn: 'WARNING', error: 'WARNING' } as const;

/** Writes the lines of a step's plugin to the log of its run: bounded, and without the secrets of its config. */
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

  /** Says how many lines were left out. */
  end(): void {
    if (this.#omitted === 0) return;
    const { id, name } = this.#facts;
    this.#write(
      'INFO',
      `Step ${id} (${name}): ${this.#omitted} lines of its plugin were left out.`,
    );
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
