/** The beginning of a text, at most `length` UTF-16 code units. It never ends in half a character, which JSON and PostgreSQL refuse. */
export const cutText = (text: string, length: number): string =>
  text.slice(0, length).replace(/[\ud800-\udbff]$/, '');

/** A text of others on one line, without controls of direction and half characters. @param length in UTF-16 code units */
export const oneLine = (text: string, length = 200): string =>
  cutText(text.replace(/[\s\p{Cc}\p{Cs}\p{Bidi_Control}]+/gu, ' '), length);
