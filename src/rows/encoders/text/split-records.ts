/** With their final line breaks. @param quoted a line break between double quotes is of the record (RFC 4180) */
export async function* splitRecords(
  chunks: AsyncIterable<Buffer>,
  quoted: boolean,
): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  let inQuotes = false;
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = 0; at < chunk.length; ) {
      const lineEnd = chunk.indexOf(10, at);
      const end = lineEnd === -1 ? chunk.length : lineEnd + 1;
      if (quoted) inQuotes = endsInQuotes(inQuotes, chunk, at, end);
      at = end;
      if (lineEnd === -1 || inQuotes) continue;
      const last = chunk.subarray(start, end);
      yield begun.length === 0 ? last : Buffer.concat([...begun, last]);
      begun = [];
      start = end;
    }
    if (start < chunk.length) begun.push(chunk.subarray(start));
  }
  if (begun.length > 0) yield Buffer.concat(begun);
}

/** A doubled quote in a field ends the quotes and begins them again. */
function endsInQuotes(before: boolean, bytes: Buffer, start: number, end: number): boolean {
  let inQuotes = before;
  for (let at = start; at < end; at += 1) if (bytes[at] === 0x22) inQuotes = !inQuotes;
  return inQuotes;
}
