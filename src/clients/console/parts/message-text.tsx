import { TimeText } from './time-text.tsx';

/** A time in UTC, as the API writes it into messages. */
const time = /(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A message of the service, such as an error or a line of a log. The times in it are by the chosen clock. */
export function MessageText({ text }: { readonly text: string }) {
  // The parts alternate: a text, then a time.
  return text.split(time).map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no id, and may be alike.
    index % 2 === 1 ? <TimeText key={index} at={part} as="stamp" /> : part,
  );
}
