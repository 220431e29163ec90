const maxPageBytes = 8 * 1024 ** 2;

/** The first of these items, up to the bytes of a page; always one. */
export function upToPageBytes<T extends { readonly config: unknown }>(
  items: readonly T[],
): readonly T[] {
  let bytes = 0;
  const over = items.findIndex(({ config }) => {
    bytes += JSON.stringify(config).length;
    return bytes > maxPageBytes;
  });
  return over === -1 ? items : items.slice(0, over + 1);
}
