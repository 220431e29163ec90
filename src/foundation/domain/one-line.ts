/** The beginning of a text, at most `length` UTF-16 code units. It never ends in half a character, which JSON and PostgreSQL refuse. */
export const cutText = (text: string, length: number): string =>
  text.slice(0, length).replace(/[\ud800-\udbff]$/, '');

/**
 * A text of others as one line: a line break must not begin another header or line, and a control of direction must not
 * reorder what follows it. Half characters go. At most `length` UTF-16 code units.
 */
export const oneLine = (text: string, length = 200): string =>
  cutText(text.replace(/[\s\p{Cc}\p{Cs}\p{Bidi_Control}]+/gu, ' '), length);
