const maxPageBytes = 8 * 1024 ** 2;

/**
 * The items of a page up to its size; always the first. The rest is on the next page.
 *
 * @param bytesOf what an item takes in the answer, about
 */
export function upToPageBytes<T>(items: readonly T[], bytesOf: (item: T) => number): readonly T[] {
  let bytes = 0;
  const last = items.findIndex((item) => {
    bytes += bytesOf(item);
    return bytes > maxPageBytes;
  });
  return last === -1 ? items : items.slice(0, last + 1);
}
