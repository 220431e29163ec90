import { exactJson } from '../../foundation/domain/exact-json.ts';
import { type Json, jsonNull, type JsonText, objectOf, quote, textOf } from './json.ts';
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

/** Bytes of JSON that an answer shows at most: a chain may make any size of a small row. */
const answerBytes = 16 * 1024 ** 2;
/** A longer value shows its beginning only. */
const longestValue = 1024 ** 2;
/** A shorter value is always shown, so that a row is whole. */
const shortValue = 100;

export class AnswerRoom {
  #bytes = answerBytes;
  #hasCut = false;

  get isFull(): boolean {
    return this.#bytes <= 0;
  }

  /** Says whether something that was given to it is not, or not whole, in the answer. */
  get hasCut(): boolean {
    return this.#hasCut;
  }

  /** The value as an answer shows it: without loss for a client that has only doubles, or its beginning and size. */
  show(value: JsonText): string {
    const bytes = Buffer.byteLength(value);
    const fits = bytes <= shortValue || bytes <= Math.min(this.#bytes, longestValue);
    this.#bytes -= bytes;
    if (fits) return exactJson(value);
    this.#hasCut = true;
    return quote(`${value.slice(0, shortValue)}… (${bytes} bytes)`);
  }

  /** Takes room for one more part of the answer, such as a name. @returns whether there is any */
  takes(bytes = shortValue): boolean {
    if (this.isFull) this.#hasCut = true;
    else this.#bytes -= bytes;
    return !this.isFull;
  }
}
