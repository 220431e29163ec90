/** Encoded and sorted as it is signed. */
export function queryString(
  query: Readonly<Record<string, string | readonly string[] | null>>,
): string {
  return Object.keys(query)
    .sort()
    .flatMap((name) => {
      const value = query[name] ?? null;
      if (value === null) return [encode(name)];
      const values = typeof value === 'string' ? [value] : value;
      return values.map((each) => `${encode(name)}=${encode(each)}`);
    })
    .join('&');
}

/** RFC 3986: all but unreserved characters. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
