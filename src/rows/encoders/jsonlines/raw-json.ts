/**
 * The unchanged text of a property's value in a JSON object: `JSON.parse` would round 9007199254740993 and
 * shorten 1.10.
 *
 * @param json text that JSON.parse accepts; Node 20's gives no access to the text of a value
 * @returns null if the object has no such property
 */
export function rawProperty(json: string, name: string): string | null {
  let at = skipBlanks(json, json.indexOf('{') + 1);
  while (json[at] === '"') {
    const nameEnd = endOfString(json, at);
    const start = skipBlanks(json, json.indexOf(':', nameEnd) + 1);
    const end = endOfValue(json, start);
    if (JSON.parse(json.slice(at, nameEnd)) === name) return json.slice(start, end);
    const comma = skipBlanks(json, end);
    if (json[comma] !== ',') return null;
    at = skipBlanks(json, comma + 1);
  }
  return null;
}

const string = /"(?:[^"\\]|\\.)*"/sy;
const scalar = /[^,\]}\s]+/y;
const bracketOrString = /[[\]{}]|"(?:[^"\\]|\\.)*"/gs;

function endOfValue(json: string, start: number): number {
  const first = json[start];
  if (first === '"') return endOfString(json, start);
  if (first !== '{' && first !== '[') return endOfMatch(scalar, json, start);
  let depth = 0;
  bracketOrString.lastIndex = start;
  for (;;) {
    const token = bracketOrString.exec(json)?.[0];
    if (token === undefined) throw new SyntaxError('a JSON value does not end');
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    if (depth === 0) return bracketOrString.lastIndex;
  }
}

const endOfString = (json: string, start: number) => endOfMatch(string, json, start);

function endOfMatch(pattern: RegExp, json: string, start: number): number {
  pattern.lastIndex = start;
  if (!pattern.test(json)) throw new SyntaxError('a JSON value does not end');
  return pattern.lastIndex;
}

function skipBlanks(json: string, start: number): number {
  let at = start;
  while (/[ \t\r\n]/.test(json[at] ?? '')) at += 1;
  return at;
}
