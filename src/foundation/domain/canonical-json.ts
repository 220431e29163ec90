/** RFC 8785: members sorted by name, no space. @throws TypeError if a name is not ASCII or a number is not whole */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalText(value));
}

function canonicalText(value: unknown): string {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new TypeError(`${value} is not a whole number`);
  }
  if (Array.isArray(value)) return `[${value.map(canonicalText).join()}]`;
  if (typeof value !== 'object' || value === null) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`${typeof value} is no JSON`);
    // JSON has one zero.
    return text === '-0' ? '0' : text;
  }
  let members = '';
  for (const name of Object.keys(value).sort()) {
    const member = (value as Readonly<Record<string, unknown>>)[name];
    if (member === undefined) continue;
    if (!ascii.test(name)) throw new TypeError(`the name ${name} is not ASCII`);
    members += `${members && ','}${JSON.stringify(name)}:${canonicalText(member)}`;
  }
  return `{${members}}`;
}

const ascii = /^[\x20-\x7e]*$/;

/** A value with text for each number, and pairs for each object, that has no canonical bytes: for digests of foreign JSON. */
export function canonicalizable(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : String(value);
  if (Array.isArray(value)) return value.map(canonicalizable);
  if (typeof value !== 'object' || value === null) return value ?? null;
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => [name, canonicalizable(member)] as const);
  return members.every(([name]) => ascii.test(name))
    ? Object.fromEntries(members)
    : members.toSorted(([a], [b]) => (a < b ? -1 : 1));
}
