/** Turns the binary form of a type into the text that PostgreSQL's `to_json` gives for it, byte by byte. */
export interface JsonDecoder {
  /** Maximum bytes of the text. @throws CopyFormatError if the field is not of the type */
  bound(bytes: Buffer, from: number, length: number): number;
  /** Writes the text; there must be room for `bound`. @returns the end of what was written */
  write(target: Buffer, at: number, bytes: Buffer, from: number, length: number): number;
}
