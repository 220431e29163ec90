/**
 * Levels of lists and objects that a JSON value of a row may have, here and in what clients get. Far fewer than PostgreSQL takes,
 * and fewer than any reader of ours needs a stack for.
 */
export const maxJsonLevels = 1_000;

const quote = 0x22;
const openList = 0x5b;
const backslash = 0x5c;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

/** A quick look: a value with few brackets, as nearly all have, is not deep. */
export function mayBeTooDeep(json: Uint8Array): boolean {
  // Each level has two brackets.
  if (json.length <= 2 * maxJsonLevels) return false;
  let brackets = 0;
  for (const open of [openList, openObject]) {
    for (let at = json.indexOf(open); at >= 0; at = json.indexOf(open, at + 1)) {
      brackets += 1;
      if (brackets > maxJsonLevels) return true;
    }
  }
  return false;
}

/** Counts the levels of a value that comes in pieces. */
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
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) isInText = false;
      } else if (byte === quote) isInText = true;
      else if (byte === openList || byte === openObject) {
        levels += 1;
        if (levels > maxJsonLevels) return true;
      } else if (byte === closeList || byte === closeObject) levels -= 1;
    }
    this.#levels = levels;
    this.#isInText = isInText;
    this.#isEscaped = isEscaped;
    return false;
  }
}
