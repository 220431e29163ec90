/** A line break in a name must not begin another header or line. */
export const oneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').slice(0, 200);
