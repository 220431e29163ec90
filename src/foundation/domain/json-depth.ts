import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from './json-bytes.ts';
/** Levels of lists and objects in a JSON value of a row: fewer than any reader of ours needs a stack for. */
export const maxJsonLevels = 1_000;

/** A quick look: a value with few brackets, as nearly all have, is not deep. */
export function mayBeTooDeep(json: Uint8Array): boolean {
  // Each level has two brackets.
  if (json.length <= 2 * maxJsonLevels) return false;
  let brackets = 0;
  for (const open of [OPEN_LIST, OPEN_OBJECT]) {
    for (let at = json.indexOf(open); at >= 0; at = json.indexOf(open, at + 1)) {
      brackets += 1;
      if (brackets > maxJsonLevels) return true;
    }
  }
  return false;
}

export class JsonLevels {
  #levels = 0;
  #isInText = false;
  #isEscaped = false;

  /** Takes the next piece. @returns whether the value is nested too deeply */
  exceed(piece: Uint8Array): boolean {
    let levels = this.#levels;
    let isInText = this.#isInText;
    let isEscaped = this.#isEscaped;
    for (let at = 0; at < piece.length; at += 1) {
      const byte = piece[at];
      if (isInText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isInText = false;
      } else if (byte === QUOTE) isInText = true;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        levels += 1;
        if (levels > maxJsonLevels) return true;
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) levels -= 1;
    }
    this.#levels = levels;
    this.#isInText = isInText;
    this.#isEscaped = isEscaped;
    return false;
  }
}
