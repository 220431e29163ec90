/** Makes JSON for a client that has only doubles: numbers outside strings that it would round become text. */
export function exactJson(json: string): string {
  let text = '';
  for (let at = 0; at < json.length; ) {
    const start = json.indexOf('"', at);
    const end = start < 0 ? json.length : start;
    text += json.slice(at, end).replace(number, quoteInexact);
    at = start < 0 ? end : endOfString(json, start);
    text += json.slice(end, at);
  }
  return text;
}

function endOfString(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (json[end - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return end + 1;
  }
  return json.length;
}

const number = /-?\d[\d.eE+-]*/g;

/** A double represents any 15 digits; more only if they are read back the same. */
function quoteInexact(token: string): string {
  if (String(Number(token)) === token) return token;
  const digits = token.replace(/[eE].*$|\D/g, '').length;
  return digits <= 15 && Number.isFinite(Number(token)) ? token : `"${token}"`;
}
