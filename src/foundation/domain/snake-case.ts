type SnakeName<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeName<Rest>}`
  : '';

export type InSnakeCase<T> = {
  [Name in keyof T & string as SnakeName<Name>]: T[Name] extends readonly (infer Item)[] | null
    ? Item[] | Extract<T[Name], null>
    : T[Name];
};

const nameOf = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** `createdAt` → `created_at`, not within nested records. */
export function inSnakeCase<T extends object>(record: T): InSnakeCase<T> {
  const entries = Object.entries(record).map(([name, value]) => [nameOf(name), value]);
  return Object.fromEntries(entries) as InSnakeCase<T>;
}
