import type { AnswerRoom } from './answer-room.ts';
import { type Json, jsonNull, objectOf, quote, textOf } from './json.ts';
import type { RowTransformer } from './transform-rows.ts';
import type { Row } from './transform.ts';

interface TracedStep {
  readonly step: number;
  readonly name: string;
  readonly fate: 'kept' | 'dropped' | 'rejected';
  /** Why the step could not handle the row; null if it could. */
  readonly error: string | null;
  /** Columns, and properties of JSON columns, that the step changed: JSON. */
  readonly changes: readonly string[];
}

export class RowTrace {
  readonly #transformer: RowTransformer;
  readonly #room: AnswerRoom;
  #steps: TracedStep[] = [];
  #earlierMs: readonly number[] = [];

  constructor(transformer: RowTransformer, room: AnswerRoom) {
    this.#transformer = transformer;
    this.#room = room;
    transformer.watch(({ step }, before, after, error) => {
      const changes = after === null ? [] : [...this.#changes(before, after)];
      const fate = after !== null ? 'kept' : error === null ? 'dropped' : 'rejected';
      this.#steps.push({ step: step.id, name: step.name, fate, error, changes });
    });
  }

  take(row: string, result: string | null): string {
    const timesMs = this.#transformer.steps.map(({ timeMs }) => timeMs);
    const steps = this.#steps.map(({ changes, ...step }, index) => {
      const ms = (timesMs[index] ?? 0) - (this.#earlierMs[index] ?? 0);
      const facts = JSON.stringify({ ...step, microseconds: Math.max(0, Math.round(ms * 1_000)) });
      return `${facts.slice(0, -1)},"changes":[${changes.join()}]}`;
    });
    this.#steps = [];
    this.#earlierMs = timesMs;
    return `{"row":${row},"result":${result},"steps":[${steps.join()}]}`;
  }

  *#changes(before: Row, after: Row): Generator<string> {
    for (const name of before === after ? [] : namesOf(before, after)) {
      const [was, is] = [before.get(name), after.get(name)];
      const [inside, within] = [objectOf(was), objectOf(is)];
      if (!inside || !within) yield* this.#change(name, was, is);
      else if (inside !== within) {
        for (const key of namesOf(inside, within)) {
          yield* this.#change(`${name}.${key}`, inside.get(key), within.get(key));
        }
      }
    }
  }

  *#change(path: string, was: Json | undefined, is: Json | undefined): Generator<string> {
    if (was === is || (was && is && textOf(was) === textOf(is)) || !this.#room.takes()) return;
    const kind = was === undefined ? 'added' : is === undefined ? 'removed' : 'changed';
    const [before, after] = [was, is].map((value) => this.#room.show(textOf(value ?? jsonNull)));
    yield `{"path":${this.#room.show(quote(path))},"kind":"${kind}","before":${before},"after":${after}}`;
  }
}

function namesOf(a: Row, b: Row): readonly string[] {
  return [...new Set([...a.members.keys(), ...b.members.keys()])];
}
