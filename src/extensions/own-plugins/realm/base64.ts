const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function btoa(given: unknown): string {
  const text = `${given}`;
  let out = '';
  for (let at = 0; at < text.length; at += 3) {
    const codes = [0, 1, 2].map((offset) => text.charCodeAt(at + offset));
    if (codes.some((code) => code > 255)) {
      throw new TypeError('btoa takes characters up to U+00FF only.');
    }
    const [a = 0, b = 0, c = 0] = codes.map((code) => code || 0);
    const bits = (a << 16) | (b << 8) | c;
    const group = [18, 12, 6, 0].map((shift) => digits.charAt((bits >> shift) & 63)).join('');
    const missing = Math.max(0, at + 3 - text.length);
    out += group.slice(0, 4 - missing) + '='.repeat(missing);
  }
  return out;
}

export function atob(given: unknown): string {
  const text = `${given}`.replace(/[\t\n\f\r ]/g, '').replace(/={1,2}$/, '');
  let out = '';
  let bits = 0;
  let held = 0;
  for (const digit of text) {
    const value = digits.indexOf(digit);
    if (value < 0 || text.length % 4 === 1) throw new TypeError('atob takes base64 only.');
    bits = ((bits << 6) | value) & 0xffffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += String.fromCharCode((bits >> held) & 255);
  }
  return out;
}
