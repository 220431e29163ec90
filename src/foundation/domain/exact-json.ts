/** JSON for a client that has only doubles: numbers that it would round become text. */
export function exactJson(json: string): string {
  return json.replace(stringOrNumber, quoteInexact);
}

const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** A double represents any 15 digits; more only if they are read back the same. */
function quoteInexact(token: string): string {
  if (token.startsWith('"') || String(Number(token)) === token) return token;
  const digits = token.replace(/[eE].*$|\D/g, '').length;
  return digits <= 15 && Number.isFinite(Number(token)) ? token : `"${token}"`;
}
