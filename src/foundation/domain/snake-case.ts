type SnakeName<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeName<Rest>}`
  : '';

export type InSnakeCase<T> = {
  [Name in keyof T & string as SnakeName<Name>]: T[Name] extends readonly (infer Item)[] | null
    ? Item[] | Extract<T[Name], null>
    : T[Name];
};

const names = new Map<string, string>();

function nameOf(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  const made = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  names.set(name, made);
  return made;
}

/** `createdAt` → `created_at`, not within nested records. */
export function inSnakeCase<T extends object>(record: T): InSnakeCase<T> {
  const entries = Object.entries(record).map(([name, value]) => [nameOf(name), value]);
  return Object.fromEntries(entries) as InSnakeCase<T>;
}
