/**
 * A text of others as one line: a line break must not begin another header or line, and a control of direction must not
 * reorder what follows it. At most `length` UTF-16 code units.
 */
export const oneLine = (text: string, length = 200): string =>
  text
    .replace(/[\s\p{Cc}\p{Bidi_Control}]+/gu, ' ')
    .slice(0, length)
    .replace(/[\ud800-\udbff]$/, '');
